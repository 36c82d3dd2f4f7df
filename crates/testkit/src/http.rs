//! A client of the HTTP API: plain requests and WebSockets.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::http::{HeaderName, HeaderValue};
use tungstenite::{Message, WebSocket};
use ureq::Agent;

use crate::home::Home;

/// Timeout of every request. Generous for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The API of one home.
#[derive(Clone, Debug)]
pub struct Http {
    /// Its address, without a trailing slash.
    pub url: String,
    token: Option<String>,
    headers: Vec<(String, String)>,
    agent: Agent,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub bytes: Vec<u8>,
}

impl Home {
    /// Makes the daemon listen on a free port; starts it if necessary.
    ///
    /// # Panics
    ///
    /// When it cannot listen.
    #[must_use]
    #[track_caller]
    pub fn serve(&self) -> Http {
        let words = ["serve", "--listen", "127.0.0.1:0", "--detach", "--json"];
        let served = self.ccmux(&words).json();
        let url = served["url"].as_str().unwrap_or_else(|| panic!("no url in {served}"));
        let token = self.ccmux(&["token"]).ok();
        Http::new(url, Some(token.trim()))
    }
}

impl Http {
    /// Creates a client with this token.
    #[must_use]
    pub fn new(url: &str, token: Option<&str>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .proxy(None)
            .allow_non_standard_methods(true);
        let url = url.trim_end_matches('/').to_owned();
        let token = token.map(str::to_owned);
        Self { url, token, headers: Vec::new(), agent: config.build().into() }
    }

    /// Returns a client with another token.
    #[must_use]
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// Returns a client with an additional header in every request.
    #[must_use]
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        let mut more = self.clone();
        more.headers.push((name.to_owned(), value.to_owned()));
        more
    }

    /// Returns its token.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Sends a GET request.
    ///
    /// # Panics
    ///
    /// When there is no response.
    #[must_use]
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    /// Sends a POST request with a JSON body.
    ///
    /// # Panics
    ///
    /// When there is no response.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body))
    }

    /// Sends a DELETE request.
    ///
    /// # Panics
    ///
    /// When there is no response.
    #[track_caller]
    pub fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, None)
    }

    /// Sends a request.
    ///
    /// # Panics
    ///
    /// When there is no response.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.try_ask(method, path, body)
            .unwrap_or_else(|error| panic!("no response to {method} {path}: {error}"))
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// When the connection is refused or breaks.
    pub fn try_ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ureq::Error> {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in self.all_headers() {
            request = request.header(name, value);
        }
        let mut answer = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.agent.run(request.body(body.to_string())?)?
            }
            None => self.agent.run(request.body(())?)?,
        };
        let status = answer.status().as_u16();
        let text = |value: &ureq::http::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        let headers =
            answer.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let bytes = answer.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
        Ok(Answer { status, headers, bytes })
    }

    fn all_headers(&self) -> impl Iterator<Item = (String, String)> {
        let bearer =
            self.token.iter().map(|token| ("authorization".to_owned(), format!("Bearer {token}")));
        bearer.chain(self.headers.iter().cloned())
    }

    /// Opens the event stream at `path`.
    ///
    /// # Panics
    ///
    /// When it is refused.
    #[must_use]
    #[track_caller]
    pub fn events(&self, path: &str) -> EventSource {
        let mut request =
            self.agent.get(format!("{}{path}", self.url)).config().timeout_global(None).build();
        for (name, value) in self.all_headers() {
            request = request.header(name, value);
        }
        let answer = request.call().unwrap_or_else(|error| panic!("no events: {error}"));
        assert_eq!(answer.status().as_u16(), 200, "{path} is not an event stream");
        EventSource { lines: BufReader::new(answer.into_body().into_reader()) }
    }

    /// Opens the WebSocket at `path`.
    ///
    /// # Panics
    ///
    /// When it is refused.
    #[must_use]
    #[track_caller]
    pub fn websocket(&self, path: &str) -> Socket {
        self.try_websocket(path).unwrap_or_else(|error| panic!("no WebSocket at {path}: {error}"))
    }

    /// Opens the WebSocket at `path`.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    ///
    /// # Panics
    ///
    /// When the address is invalid.
    pub fn try_websocket(&self, path: &str) -> Result<Socket, String> {
        let address = self.url.trim_start_matches("http://");
        let stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket has a read timeout");
        stream.set_nodelay(true).expect("a socket has TCP_NODELAY");
        let mut request = format!("ws://{address}{path}").into_client_request().expect("a request");
        for (name, value) in self.all_headers() {
            let name: HeaderName = name.parse().expect("the name of a header");
            let value = HeaderValue::from_str(&value).expect("the value of a header");
            request.headers_mut().insert(name, value);
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Socket { socket }),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Answer {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    ///
    /// When it is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self:?} {}", self.text()))
    }

    /// Asserts this status and returns the body as JSON (`null` if empty).
    ///
    /// # Panics
    ///
    /// When the status is another one.
    #[must_use]
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }
}

/// A stream of server-sent events.
pub struct EventSource {
    lines: BufReader<ureq::BodyReader<'static>>,
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEvent {
    /// Its number.
    pub id: u64,
    /// Its type.
    pub event: Option<String>,
    /// Its data.
    pub data: Value,
}

impl EventSource {
    /// Returns the next event, or `None` at the end of the stream. Skips comments.
    ///
    /// # Panics
    ///
    /// When an event is invalid.
    pub fn next_event(&mut self) -> Option<ServerEvent> {
        let (mut id, mut event, mut data) = (None, None, None);
        loop {
            let mut line = String::new();
            // An interrupted stream ends.
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(": ") {
                Some(("id", value)) => id = Some(value.parse().expect("a number")),
                Some(("event", value)) => event = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).expect("JSON")),
                _ => {}
            }
            if line.is_empty()
                && let (Some(id), Some(data)) = (id, data.take())
            {
                return Some(ServerEvent { id, event, data });
            }
        }
    }
}

/// A WebSocket of a pane.
pub struct Socket {
    socket: WebSocket<TcpStream>,
}

/// A message of a pane's WebSocket.
#[derive(Clone, Debug, PartialEq)]
pub enum SocketMessage {
    /// A text message.
    Text(Value),
    /// A binary message: an offset and the output from there on.
    Bytes(u64, Vec<u8>),
    /// The connection was closed, with code and reason if given.
    Closed(Option<(u16, String)>),
}

impl Socket {
    /// Returns the next message. Answers and skips pings.
    ///
    /// # Panics
    ///
    /// When no message arrives in time, or a binary message has no offset.
    #[track_caller]
    pub fn next_message(&mut self) -> SocketMessage {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    return SocketMessage::Text(serde_json::from_str(text.as_str()).expect("JSON"));
                }
                Ok(Message::Binary(bytes)) => {
                    let offset = bytes.first_chunk().expect("the message starts with an offset");
                    return SocketMessage::Bytes(u64::from_be_bytes(*offset), bytes[8..].to_vec());
                }
                Ok(Message::Close(frame)) => {
                    let said = frame.map(|f| (f.code.into(), f.reason.to_string()));
                    // Answers the close frame.
                    while self.socket.read().is_ok() {}
                    return SocketMessage::Closed(said);
                }
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(tungstenite::Error::Io(error))
                    if error.kind() == std::io::ErrorKind::WouldBlock =>
                {
                    panic!("no message within {TIMEOUT:?}")
                }
                Err(_) => return SocketMessage::Closed(None),
            }
            assert!(Instant::now() < until, "only pings within {TIMEOUT:?}");
        }
    }

    /// Sends input.
    ///
    /// # Panics
    ///
    /// When the connection is closed.
    #[track_caller]
    pub fn type_bytes(&mut self, bytes: &[u8]) {
        self.socket.send(Message::binary(bytes.to_vec())).expect("the connection is open");
    }

    /// Sends a text message.
    ///
    /// # Panics
    ///
    /// When the connection is closed.
    #[track_caller]
    pub fn send_text(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).expect("the connection is open");
    }
}

impl std::fmt::Debug for EventSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSource").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}
