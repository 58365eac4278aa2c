//! System calls (seccomp).

mod lists;

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use lists::{FILES, NEVER, PAIRS};

/// The system calls that a process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// All.
    #[default]
    All,
    /// Those of work on files: no sockets, no other programs, no processes but threads of its own. Everything that is not
    /// listed fails with `EPERM`.
    Files,
    /// Those of [`Calls::Files`], and of a JavaScript engine that draws: a pair of sockets that are connected to each
    /// other.
    Drawing,
    /// Those of a service: sockets of the Internet and of this host, and programs. What only administrators and debuggers
    /// need, and what makes the kernel load modules, fails with `EPERM`.
    Service,
}

/// Restricts this process to `calls`; or why it cannot.
pub fn restrict(calls: Calls) -> Option<String> {
    let list = match calls {
        Calls::All => return None,
        Calls::Files => listed(FILES, files_only_if(), false),
        Calls::Drawing => listed(&[FILES, PAIRS].concat(), drawing_only_if(), false),
        Calls::Service => listed(NEVER, never_if(), true),
    };
    // The list comes last: it may refuse what is needed to install another filter.
    for program in [without_clone3(), foreign_numbers(), list] {
        let applied = program.and_then(|program| apply_filter(&program));
        if let Err(error) = applied {
            return Some(format!("seccomp: {error}"));
        }
    }
    None
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A filter that allows the calls in `numbers`, and those of `conditional` if their arguments fit, and refuses all others;
/// or the other way round if they are `refused`.
fn listed(
    numbers: &[i64],
    conditional: Result<Rules, BackendError>,
    refused: bool,
) -> Result<BpfProgram, Error> {
    let mut rules = conditional.map_err(Error::Backend)?;
    rules.extend(numbers.iter().map(|&number| (number, vec![])));
    let refusal = SeccompAction::Errno(libc::EPERM as u32);
    let (otherwise, matched) =
        if refused { (SeccompAction::Allow, refusal) } else { (refusal, SeccompAction::Allow) };
    filter(rules, otherwise, matched)
}

fn filter(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<BpfProgram, Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?;
    SeccompFilter::new(rules, otherwise, matched, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(Error::Backend)
}

/// Without clone3(2): its flags are in memory, where a filter does not see them. The C library then uses clone(2).
fn without_clone3() -> Result<BpfProgram, Error> {
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    filter(BTreeMap::from([(libc::SYS_clone3, vec![])]), SeccompAction::Allow, missing)
}

/// Numbers of the x32 ABI, under which each call has another one: a list of what is refused would not have them.
fn foreign_numbers() -> Result<BpfProgram, Error> {
    const X32: u32 = 0x4000_0000;
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| seccompiler::sock_filter { code: code as u16, jt, jf, k };
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    Ok(vec![
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, number),
        statement(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

/// Argument number `index`, compared as 32 bits.
fn argument(index: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

/// Any of `values` for argument number `index`.
fn one_of(index: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|&value| SeccompRule::new(vec![argument(index, SeccompCmpOp::Eq, value)?])).collect()
}

/// None of `values` for argument number `index`.
fn none_of(index: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let conditions = values.iter().map(|&value| argument(index, SeccompCmpOp::Ne, value));
    Ok(vec![SeccompRule::new(conditions.collect::<Result<_, _>>()?)?])
}

/// What work on files needs, with the right arguments.
fn files_only_if() -> Result<Rules, BackendError> {
    let own = u64::from(std::process::id());
    let thread = libc::CLONE_THREAD as u64;
    let names = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA, libc::PR_GET_DUMPABLE];
    let terminal =
        [libc::TCGETS, libc::TIOCGWINSZ, libc::FIOCLEX, libc::FIONCLEX, libc::FIONREAD, libc::FIONBIO];
    Ok(BTreeMap::from([
        // A thread is always part of its process's namespaces: the kernel refuses other flags beside this one.
        (
            libc::SYS_clone,
            vec![SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(thread), thread)?])?],
        ),
        // What abort(3) does; and Python's signal.raise_signal.
        (libc::SYS_tgkill, one_of(0, &[own])?),
        (libc::SYS_kill, one_of(0, &[own])?),
        (libc::SYS_prlimit64, one_of(0, &[0, own])?),
        (libc::SYS_sched_setaffinity, one_of(0, &[0, own])?),
        (libc::SYS_prctl, one_of(0, &names.map(|name| name as u64))?),
        (libc::SYS_ioctl, one_of(1, &terminal)?),
    ]))
}

/// What drawing needs, with the right arguments.
fn drawing_only_if() -> Result<Rules, BackendError> {
    let mut rules = files_only_if()?;
    rules.insert(libc::SYS_socketpair, one_of(0, &[libc::AF_UNIX as u64])?);
    Ok(rules)
}

/// What a service must not do, with these arguments.
fn never_if() -> Result<Rules, BackendError> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|each| each as u64);
    // Routes and sockets of this host; others make the kernel load modules.
    let netlink = [libc::NETLINK_ROUTE as u64, libc::NETLINK_SOCK_DIAG as u64];
    let mut sockets = none_of(0, &families)?;
    sockets.push(SeccompRule::new(vec![
        argument(0, SeccompCmpOp::Eq, libc::AF_NETLINK as u64)?,
        argument(2, SeccompCmpOp::Ne, netlink[0])?,
        argument(2, SeccompCmpOp::Ne, netlink[1])?,
    ])?);
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let clones = namespaces.iter().map(|&flag| {
        let flag = flag as u64;
        SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    });
    // Types on the terminal of whoever started the service, as if that user did.
    const TIOCSTI: u64 = 0x5412;
    const TIOCLINUX: u64 = 0x541c;
    Ok(BTreeMap::from([
        (libc::SYS_socket, sockets),
        (libc::SYS_clone, clones.collect::<Result<_, _>>()?),
        (libc::SYS_ioctl, one_of(1, &[TIOCSTI, TIOCLINUX])?),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_is_a_program_of_the_kernel() {
        for program in [
            listed(FILES, files_only_if(), false),
            listed(&[FILES, PAIRS].concat(), drawing_only_if(), false),
            listed(NEVER, never_if(), true),
            without_clone3(),
            foreign_numbers(),
        ] {
            let length = program.unwrap().len();
            // BPF_MAXINSNS.
            assert!((1..4096).contains(&length), "{length}");
        }
    }

    #[test]
    fn no_call_is_allowed_both_with_any_arguments_and_with_some() {
        let drawing = [FILES, PAIRS].concat();
        for (list, conditional) in
            [(FILES, files_only_if()), (&drawing, drawing_only_if()), (NEVER, never_if())]
        {
            let conditional = conditional.unwrap();
            assert!(list.iter().all(|number| !conditional.contains_key(number)));
            let mut once = list.to_vec();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), list.len());
        }
    }
}
