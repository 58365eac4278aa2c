//! Streams of a client that are made during its session, each in a thread that ends by itself.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use weir_clock::now_ns;

use super::dial::{Purpose, dial};
use super::socket::Shared;
use super::worker::Arrival;
use super::{Options, Route};
use crate::redial::Redial;
use crate::wire::{Id, Secret};

/// Makes the streams of a client.
#[derive(Debug)]
pub struct Dialer {
    pub redial: Redial,
    routes: Vec<Route>,
    id: Id,
    secret: Secret,
    options: Arc<Options>,
}

impl Dialer {
    /// For a session over these routes. Those that have `failed` are tried again; the others are in use or
    /// already being tried.
    pub fn new(routes: &[Route], failed: &[bool], id: Id, secret: Secret, options: Arc<Options>) -> Self {
        let now_ns = now_ns();
        let path = |route: &Route| routes.iter().position(|other| other == route).unwrap_or_default();
        let mut redial = Redial::new(routes.iter().map(path), now_ns);
        for (route, _) in failed.iter().enumerate().filter(|(_, failed)| **failed) {
            redial.failed(route, now_ns);
        }
        Self { redial, routes: routes.to_vec(), id, secret, options }
    }

    /// Begins every try that is due.
    pub fn dial(&mut self, shared: &Arc<Shared>, now_ns: u64) {
        while let Some(due) = self.redial.due(now_ns) {
            let (route, id, options) = (self.routes[due.route], self.id, Arc::clone(&self.options));
            let (purpose, shared) = (Purpose::Join(self.secret.clone()), Arc::downgrade(shared));
            let patience = Duration::from_nanos(due.patience_ns);
            let work = move || {
                let stream = dial(&route, id, &purpose, &options, patience).map(|(stream, _)| stream);
                if let Some(shared) = shared.upgrade() {
                    shared.arrive(Arrival { route: Some(due.route), stream });
                }
            };
            if thread::Builder::new().name("psock dial".to_owned()).spawn(work).is_err() {
                self.redial.failed(due.route, now_ns);
            }
        }
    }
}
