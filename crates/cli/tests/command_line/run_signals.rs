//! Signals, job control and the processes that a command leaves behind.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::command_line::is_passed_on;
use crate::command_line::support::{
    at_a_terminal, code, lockhouse, pid_of_run, read_line, signal, stderr, stdout, until_childless,
};
use crate::process::ServerProcess;
use crate::program;

/// A script that says what it is, with a descendant of its own, and what signal each of them gets; USR1 ends
/// both.
const FAMILY: &str = "
    trap 'echo outer' TERM; trap 'exit 7' USR1
    sh -c 'trap \"echo inner\" TERM; trap \"exit 0\" USR1; sleep 60 >/dev/null 2>&1 & echo ready; while :; do wait $!; done' &
    while :; do wait $!; done";

/// The next two lines, sorted.
fn two_lines(child: &mut Child) -> [String; 2] {
    let mut text = String::new();
    let mut byte = [0];
    while text.matches('\n').count() < 2 {
        assert_eq!(child.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "ended after {text:?}");
        text.push(char::from(byte[0]));
    }
    let mut lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines.try_into().unwrap()
}

#[test]
fn a_signal_reaches_every_process_of_the_commands_group_once_however_it_is_sent() {
    let server = ServerProcess::start("10s");
    for to_the_group in [false, true, true, true] {
        let mut child =
            lockhouse(&server, &["run", "n", "--", "sh", "-c", FAMILY]).process_group(0).spawn().unwrap();
        read_line(&mut child, "ready");
        let pid = Pid::from_child(&child);
        if to_the_group { kill_process_group(pid, Signal::TERM) } else { kill_process(pid, Signal::TERM) }
            .unwrap();
        assert_eq!(two_lines(&mut child), ["inner", "outer"]);
        signal(&child, Signal::USR1);
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), stdout(&output)), (7, ""), "nothing came twice");
    }
}

#[test]
fn signals_that_few_programs_know_are_passed_on_too() {
    let server = ServerProcess::start("10s");
    for (sent, number) in [(Signal::ALARM, 14), (Signal::PROF, 27), (Signal::XCPU, 24), (Signal::IO, 29)] {
        is_passed_on(&server, sent, number);
    }
}

/// A command that says which signals it gets, up to USR1.
const LISTENER: &str = "trap 'echo int' INT; trap 'echo told; exit' USR1; sleep 60 >/dev/null 2>&1 & echo ready; while :; do wait; done";

#[test]
fn what_is_typed_at_the_terminal_comes_once_wherever_stderr_goes() {
    let server = ServerProcess::start("10s");
    let line = format!("lockhouse run n -- sh -c \"{}\" 2>/dev/null; exit $?", LISTENER.replace('$', "\\$"));
    let mut child = at_a_terminal(&server, &line);
    read_line(&mut child, "ready");
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    read_line(&mut child, "^Cint");
    kill_process(pid_of_run(&server, "held"), Signal::USR1).unwrap();
    read_line(&mut child, "told");
    child.wait().unwrap();
}

#[test]
fn a_signal_that_is_sent_to_a_run_in_the_foreground_is_passed_on() {
    let server = ServerProcess::start("10s");
    let line = format!("lockhouse run n -- sh -c \"{}\"; exit $?", LISTENER.replace('$', "\\$"));
    let mut child = at_a_terminal(&server, &line);
    read_line(&mut child, "ready");
    let pid = pid_of_run(&server, "held");
    kill_process(pid, Signal::INT).unwrap();
    read_line(&mut child, "int");
    kill_process(pid, Signal::USR1).unwrap();
    read_line(&mut child, "told");
    child.wait().unwrap();
}

/// Reads what a terminal shows until this is a part of it.
fn until_shown(child: &mut Child, part: &str) {
    let mut shown = String::new();
    let mut byte = [0];
    while !shown.contains(part) {
        assert_eq!(child.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "ended after {shown:?}");
        shown.push(char::from(byte[0]));
    }
}

fn types(child: &mut Child, text: &str) {
    child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_command_reads_the_terminal_and_the_rest_of_the_script_after_it() {
    let server = ServerProcess::start("10s");
    let line = "lockhouse run n -- sh -c 'echo ready; read x; echo got-$x'; read y; echo then-$y; exit";
    let mut child = at_a_terminal(&server, line);
    until_shown(&mut child, "ready");
    types(&mut child, "one\n");
    until_shown(&mut child, "got-one");
    types(&mut child, "two\n");
    until_shown(&mut child, "then-two");
    child.wait().unwrap();
}

#[test]
fn a_command_is_stopped_and_continued_by_a_shell_with_job_control() {
    let server = ServerProcess::start("10m");
    let mut shell = at_a_terminal(&server, "bash --norc --noprofile -i");
    // Else a terminal forgets what was written just before, or just after, when a stop is typed. The parts
    // keep what it echoes from being taken for what the command says.
    types(&mut shell, "stty noflsh\n");
    types(&mut shell, "lockhouse run n -- sh -c 'echo re''ady; read x; echo got-$x; read x; echo got-$x'\n");
    until_shown(&mut shell, "ready");
    // Before the command has the terminal, or after it.
    types(&mut shell, "\x1a");
    until_shown(&mut shell, "Stopped");
    types(&mut shell, "fg\n");
    until_shown(&mut shell, "lockhouse run");
    types(&mut shell, "one\n");
    until_shown(&mut shell, "got-one");
    // By now the command has read the terminal.
    types(&mut shell, "\x1a");
    until_shown(&mut shell, "Stopped");
    types(&mut shell, "fg\n");
    until_shown(&mut shell, "lockhouse run");
    types(&mut shell, "two\n");
    until_shown(&mut shell, "got-two");
    types(&mut shell, "exit\n");
    shell.wait().unwrap();
}

#[test]
fn a_loss_ends_what_the_command_started_in_the_background_too() {
    let server = ServerProcess::start("10s");
    let mut victim = lockhouse(&server, &["run", "n", "--", "sh", "-c", FAMILY]).spawn().unwrap();
    read_line(&mut victim, "ready");
    let output = lockhouse(&server, &["run", "n", "--steal", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(two_lines(&mut victim), ["inner", "outer"]);
    signal(&victim, Signal::USR1);
    assert_eq!(victim.wait().unwrap().code(), Some(76));
}

#[test]
fn what_does_not_end_after_a_loss_is_killed() {
    let server = ServerProcess::start("10s");
    // The command itself ends at once, and leaves a process behind that does not.
    let script = "trap 'exit 0' TERM; sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done' & while :; do wait; done";
    let mut victim =
        lockhouse(&server, &["run", "n", "--kill-after", "300ms", "--", "sh", "-c", script]).spawn().unwrap();
    read_line(&mut victim, "ready");
    let output = lockhouse(&server, &["run", "n", "--steal", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 0);
    // The pipe ends with the last process that has it.
    let output = victim.wait_with_output().unwrap();
    assert_eq!(code(&output), 76);
    assert!(stderr(&output).contains("got SIGKILL"), "{output:?}");
}

#[test]
fn with_wait_children_the_lock_is_held_until_the_last_descendant_has_ended() {
    let server = ServerProcess::start("10s");
    let script = "exec 3<&0; (read _ <&3; echo late) & echo held";
    for (options, taken) in [(&["--wait-children"][..], 75), (&[], 0)] {
        let arguments = [&["run", "n"], options, &["--", "sh", "-c", script]].concat();
        let mut child = lockhouse(&server, &arguments).stdin(Stdio::piped()).spawn().unwrap();
        read_line(&mut child, "held");
        if taken == 0 {
            child.wait().unwrap();
        } else {
            until_childless(&child);
        }
        let output = lockhouse(&server, &["run", "n", "--if-available", "--", "true"]).output().unwrap();
        assert_eq!(code(&output), taken, "{output:?}");
        drop(child.stdin.take());
        read_line(&mut child, "late");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn an_ignored_sigchld_hides_no_exit_code() {
    // Other shells ignore no SIGCHLD.
    let server = ServerProcess::start("10s");
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' CHLD; exec \"$0\" run n -- sh -c 'sleep .3; exit 3'", program::lockhouse()]);
    command.env("LOCKHOUSE_URL", server.url());
    let output = command.output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (3, ""));
}
