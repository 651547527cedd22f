//! The Unix socket at which an agent serves programs of its own machine.

use anyhow::{Context as _, bail, ensure};
use nix::unistd::Group;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket's file, which is removed with this if nobody has put another one in its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

/// Listens at `path`, in the place of what a run that was killed has left there.
///
/// # Errors
/// If somebody listens there, or it is no socket, or it cannot be made with that mode and group; with the remedy.
pub fn listen(path: &Path, mode: u32, group: Option<&str>) -> anyhow::Result<(UnixListener, SocketFile)> {
    let at = path.display();
    let _alone = alone_in(path).and_then(|alone| check_left(path).map(|()| alone));
    let _alone = _alone.with_context(|| format!("cannot listen on unix:{at}"))?;
    let group = group.map(group_of).transpose()?;
    // Made in a folder that nobody else may enter, and moved once its mode and group are right: at no moment may others connect.
    let private = path.with_added_extension(std::process::id().to_string());
    let made = private.join("s");
    remove(&made, &private);
    let listening = || -> io::Result<_> {
        DirBuilder::new().mode(0o700).create(&private)?;
        let listener = UnixListener::bind(&made)?;
        listener.set_nonblocking(true)?;
        chown(&made, None, group)?;
        fs::set_permissions(&made, Permissions::from_mode(mode))?;
        let found = fs::symlink_metadata(&made)?;
        fs::rename(&made, path)?;
        Ok((listener, SocketFile { path: path.to_owned(), device_and_inode: (found.dev(), found.ino()) }))
    };
    let listening = listening();
    remove(&made, &private);
    listening.with_context(|| {
        format!(
            "cannot listen on unix:{at}: its folder has to be there and writable for this program, and a --socket-group one that it is in"
        )
    })
}

/// Removes what a run that was killed while it started may have left, as far as it is there.
fn remove(made: &Path, private: &Path) {
    let _ = fs::remove_file(made);
    let _ = fs::remove_dir(private);
}

/// Holds off other agents that start at a socket of the same folder.
fn alone_in(path: &Path) -> anyhow::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let opened = File::open(folder).context("its folder has to be there")?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive)
        .context("another agent is starting in its folder: try again")?;
    Ok(opened)
}

/// Refuses to take the place of what is not a socket, or of one at which somebody listens.
fn check_left(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why.into()),
        Ok(found) => ensure!(found.file_type().is_socket(), "it is there and no socket: name another path"),
    }
    // Who is stopped, and has no room for more callers, listens too: it is not waited for.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let caller = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&caller, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(()),
        Ok(()) | Err(Errno::AGAIN) => bail!("somebody listens there already: end it, or name another path"),
        Err(why) => Err(why).context("it is there, and whether anybody listens cannot be told"),
    }
}

/// The number of a group that is named or numbered.
fn group_of(group: &str) -> anyhow::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let found = Group::from_name(group).context("cannot read the groups of this machine")?;
    Ok(found.with_context(|| format!("--socket-group {group}: there is no such group on this machine"))?.gid.as_raw())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = |found: &fs::Metadata| (found.dev(), found.ino()) == self.device_and_inode;
        if fs::symlink_metadata(&self.path).is_ok_and(|found| is_ours(&found)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_takes_the_place_of_one_that_was_left_and_of_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let (listener, file) = listen(&path, 0o620, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o620);
        UnixStream::connect(&path).unwrap();
        let text = |refused: anyhow::Error| format!("{refused:#}");
        assert!(text(listen(&path, 0o600, None).unwrap_err()).contains("somebody listens there already"));
        // Killed: nobody listens, and the file is left; or killed while it started, which leaves a folder of the same process number.
        drop(listener);
        std::mem::forget(file);
        fs::create_dir(path.with_added_extension(std::process::id().to_string())).unwrap();
        let own = rustix::process::getgid().as_raw().to_string();
        let (_listener, file) = listen(&path, 0o600, Some(&own)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(text(listen(&path, 0o600, None).unwrap_err()).contains("no socket"));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let nowhere = dir.path().join("none/agent.sock");
        assert!(text(listen(&nowhere, 0o600, None).unwrap_err()).contains("its folder has to be there"));
        let starting = alone_in(&path).unwrap();
        assert!(
            text(listen(&dir.path().join("other"), 0o600, None).unwrap_err()).contains("another agent is starting")
        );
        drop(starting);
        let nobody = listen(&dir.path().join("other"), 0o600, Some("no-such-group-here")).unwrap_err();
        assert!(text(nobody).contains("no such group"));
    }

    #[test]
    fn the_file_of_another_run_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let (_listener, file) = listen(&path, 0o600, None).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, _file) = listen(&path, 0o600, None).unwrap();
        drop(file);
        assert!(path.exists());
    }
}
