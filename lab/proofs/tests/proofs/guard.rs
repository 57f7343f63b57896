//! The count of instructions.

use proofs::guard::instructions;

#[test]
fn the_report_of_valgrind_is_read() {
    let report = "==7== Command: lab\n==7== \n==7== I   refs:      1,234,567\n";
    assert_eq!(instructions(report), Some(1_234_567));
    assert_eq!(instructions("==7== Command: lab"), None);
}
