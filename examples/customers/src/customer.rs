//! Customers and their orders, how they are locked, and what was typed of them.

use lockhouse::{LockType, RecordKind};
use serde::Deserialize;

/// A customer is read without a lock, read under a shared one where it must not change meanwhile (on the
/// phone), and edited alone.
pub(crate) fn customers() -> RecordKind {
    RecordKind::new("customer", LockType::ReadWrite)
}

/// The orders of a customer, by its id. The orders are locked with it: the customer is the root of the
/// aggregate.
pub(crate) fn orders() -> RecordKind {
    RecordKind::new("orders", LockType::ReadWrite)
}

/// A customer, as the database has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Customer {
    pub(crate) id: i64,
    /// Grows with every change.
    pub(crate) version: i64,
    pub(crate) name: String,
    pub(crate) street: String,
    pub(crate) city: String,
    pub(crate) phone: String,
    pub(crate) note: String,
}

/// Something that a customer has ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) placed: String,
    pub(crate) what: String,
    pub(crate) cents: i64,
}

/// The content of the form, and the version that was there at the beginning.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct Typed {
    pub(crate) version: i64,
    pub(crate) name: String,
    pub(crate) street: String,
    pub(crate) city: String,
    pub(crate) phone: String,
    pub(crate) note: String,
}

impl Order {
    pub(crate) fn price(&self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

impl From<&Customer> for Typed {
    fn from(customer: &Customer) -> Self {
        let Customer { version, name, street, city, phone, note, .. } = customer.clone();
        Self { version, name, street, city, phone, note }
    }
}

impl Typed {
    /// The customer that it makes of another. Browsers send every line break as two characters.
    pub(crate) fn applied_to(&self, customer: &Customer) -> Customer {
        let clean = |text: &str| text.trim().replace("\r\n", "\n");
        Customer {
            name: clean(&self.name),
            street: clean(&self.street),
            city: clean(&self.city),
            phone: clean(&self.phone),
            note: clean(&self.note),
            ..customer.clone()
        }
    }

    /// The faults: each with its field, and what to do.
    pub(crate) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.name.trim().is_empty() {
            faults.push(("name", "Enter a name: a customer without one cannot be found again.".to_owned()));
        }
        for (field, text) in [
            ("name", &self.name),
            ("street", &self.street),
            ("city", &self.city),
            ("phone", &self.phone),
            ("note", &self.note),
        ] {
            let (count, most) = (text.chars().count(), if field == "note" { NOTE } else { LINE });
            if count > most {
                faults.push((field, format!("Shorten this to {most} characters: it has {count}.")));
            }
        }
        faults
    }
}

/// How many characters a field has at most.
const LINE: usize = 200;
const NOTE: usize = 4000;
