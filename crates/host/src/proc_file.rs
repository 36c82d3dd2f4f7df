//! Files of processes in `/proc`.
//!
//! The size of such a file is not known before it is read, and `fs::read` begins with 32 bytes. The
//! origin of every client is established from several of these files per ancestor, so they are read
//! with few system calls.

use std::fs::File;
use std::io;

/// Free space in the buffer before each read. Few files are larger.
const CHUNK: usize = 16 << 10;

/// Reads `/proc/PID/NAME`.
pub(crate) fn read(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    read_all(File::open(format!("/proc/{pid}/{name}"))?)
}

fn read_all(mut file: impl io::Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let length = content.len();
        content.resize(length + CHUNK, 0);
        let count = file.read(&mut content[length..])?;
        content.truncate(length + count);
        if count == 0 {
            return Ok(content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_longer_than_the_buffer_is_read_completely() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let content: Vec<u8> = (0..length).map(|index| index.to_le_bytes()[0]).collect();

            assert_eq!(read_all(content.as_slice()).unwrap(), content, "{length} bytes");
        }
    }

    #[test]
    fn own_command_line_is_read() {
        let expected = std::fs::read("/proc/self/cmdline").unwrap();

        assert_eq!(read(std::process::id(), "cmdline").unwrap(), expected);
    }
}
