//! Calls of IAX2, whose frames have call numbers instead of an SSRC.

use super::{Finder, key_of};
use crate::capture::Packet;
use crate::packet::Datagram;
use crate::voice::track::{Keep, Track};
use crate::voice::{Protocol, iax2};

impl<K: Keep> Finder<K> {
    pub(super) fn iax2(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        match iax2::look(datagram.payload, datagram.payload_len) {
            iax2::Look::Speech(speech) => self.speech(packet, datagram, &speech),
            iax2::Look::Trunk => {
                for speech in iax2::trunk(datagram.payload) {
                    self.speech(packet, datagram, &speech);
                }
            }
            iax2::Look::New(call) => {
                self.others.iax2 += 1;
                // The number is used again: what follows is another call.
                self.index.remove(&key_of(packet, datagram, call.into(), Protocol::Iax2));
            }
            iax2::Look::Other => self.others.iax2 += 1,
            iax2::Look::Foreign => self.others.udp += 1,
        }
    }

    fn speech(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>, speech: &iax2::Speech) {
        let key = key_of(packet, datagram, speech.call.into(), Protocol::Iax2);
        let known = self.index.get(&key).copied();
        if let Some(at) = known.filter(|at| self.tracks[*at].goes_on(packet.time_ns)) {
            let was_proven = self.tracks[at].is_proven();
            self.tracks[at].put_iax2(packet.time_ns, speech);
            if !was_proven {
                self.pending_rows += 1;
                self.check(at);
            }
        } else {
            let track = Track::new_iax2(key, self.packets, 0, packet.time_ns, speech);
            self.begin(track);
        }
        self.forget();
    }
}
