//! Facts that mutations overlook when a process judges its file.

use super::disk::{Folder, Name, locked};
use super::mutation::{Mutation, Mutations};
use serial_file::{FileSystemId, Found, Holdings, decode};

impl Folder {
    /// The holdings by its lineage.
    pub(super) fn holdings(&self) -> Option<Holdings> {
        match Found::decode(&self.lineage()?) {
            Found::Whole(lineage) => Some(lineage.holdings),
            _ => None,
        }
    }

    /// The mutations of the judgement: what differs looks alike, because the lineage is made to say so.
    pub(super) fn overlook(&self, mutations: Mutations) {
        const BENDING: [Mutation; 5] = [
            Mutation::AnyLineageResumes,
            Mutation::CopyResumes,
            Mutation::ChangeOverlooked,
            Mutation::RebootResumes,
            Mutation::WritesNotCounted,
        ];
        if !BENDING.into_iter().any(|mutation| mutations.has(mutation)) {
            return;
        }
        let files = self.files();
        let (Some(file), Some(lineage)) = (files.at(Name::File), files.at(Name::Lineage)) else { return };
        let Found::Whole(mut bent) = Found::decode(&locked(lineage).bytes) else { return };
        let Ok(contents) = decode(&locked(file).bytes) else { return };
        let (seen, identity) = (&mut bent.seen, files.stat(file).identity);
        let here = FileSystemId { fsid: identity.device, ..FileSystemId::default() };
        if mutations.has(Mutation::AnyLineageResumes) {
            (seen.identity, seen.boot, seen.file_system) = (identity, files.boot, here);
            (seen.write_counter, seen.session) = (contents.header.write_counter, contents.header.session);
        }
        if mutations.has(Mutation::CopyResumes) {
            (seen.identity, seen.file_system) = (identity, here);
        }
        if mutations.has(Mutation::ChangeOverlooked) {
            (seen.identity.ctime_s, seen.identity.ctime_ns) = (identity.ctime_s, identity.ctime_ns);
        }
        if mutations.has(Mutation::RebootResumes) {
            seen.boot = files.boot;
        }
        if mutations.has(Mutation::WritesNotCounted) {
            seen.write_counter = contents.header.write_counter;
        }
        if let Ok(bytes) = bent.encode() {
            locked(lineage).bytes = bytes;
        }
    }
}
