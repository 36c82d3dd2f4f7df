//! Arguments of a command that are declared only when the command is used.
//!
//! Declaring the arguments of every command takes a third of the time in which a command starts.

use std::ops::{Deref, DerefMut};

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The arguments `T` of a command, declared when the command is parsed or its help is shown.
#[derive(Debug, Default)]
pub(crate) struct Deferred<T>(Box<T>);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(declare::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(declare::<T>)
    }
}

/// Declares the arguments. The description of the command stays: that of `T` is for readers of the
/// code.
fn declare<T: Args>(command: Command) -> Command {
    let about = Resettable::from(command.get_about().cloned());
    let long_about = Resettable::from(command.get_long_about().cloned());
    T::augment_args(command).about(about).long_about(long_about)
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T> From<T> for Deferred<T> {
    fn from(args: T) -> Self {
        Self(Box::new(args))
    }
}

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Deferred<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
