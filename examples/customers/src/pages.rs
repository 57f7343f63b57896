//! Pages: what every one of them has, and the form, which several commands show.

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lockhouse::implicit::WebSession;

use crate::customer::{Customer, Typed};
use crate::trouble::Trouble;

/// The frame of every page: its user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) user: Option<String>,
    pub(crate) session: Option<WebSession>,
}

impl From<Option<WebSession>> for Frame {
    fn from(session: Option<WebSession>) -> Self {
        Self { user: session.as_ref().map(|session| session.user().to_owned()), session }
    }
}

impl<S: Sync> FromRequestParts<S> for Frame {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Option<WebSession>>().cloned().flatten().into())
    }
}

/// The form of a customer: the typed content, its faults, and beside it the content of the database where
/// that is newer.
#[derive(Debug, Template)]
#[template(path = "edit.html")]
pub(crate) struct EditPage {
    pub(crate) frame: Frame,
    id: i64,
    heading: String,
    version: i64,
    fields: Vec<Field>,
    /// Why it was not saved, and what to do.
    trouble: Option<Trouble>,
    /// Whether the database has something newer, shown beside what was typed.
    compares: bool,
    /// Whether to sign in again with it, and the fault of the name.
    signs_in: bool,
    fault_of_user: Option<String>,
    timeout: String,
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    label: &'static str,
    autocomplete: &'static str,
    value: String,
    current: Option<String>,
    fault: Option<String>,
}

impl EditPage {
    /// The form as it is first shown, and after a fault.
    pub(crate) fn new(frame: Frame, customer: &Customer, typed: &Typed, timeout: String) -> Self {
        let faults = typed.faults();
        let field = |name, label, autocomplete, value: &str| Field {
            name,
            label,
            autocomplete,
            value: value.to_owned(),
            current: None,
            fault: faults.iter().find(|(field, _)| *field == name).map(|(_, fault)| fault.clone()),
        };
        let fields = vec![
            field("name", "Name", "organization", &typed.name),
            field("street", "Street", "street-address", &typed.street),
            field("city", "City", "address-level2", &typed.city),
            field("phone", "Phone", "tel", &typed.phone),
            field("note", "Note", "off", &typed.note),
        ];
        Self {
            frame,
            id: customer.id,
            heading: customer.name.clone(),
            version: typed.version,
            fields,
            trouble: None,
            compares: false,
            signs_in: false,
            fault_of_user: None,
            timeout,
        }
    }

    /// The form as it comes back when it could not be saved: nothing that was typed is lost. `current` is
    /// what the database has, if it has the customer; where that is newer than what was seen, it stands
    /// beside, and saving once more replaces it knowingly.
    pub(crate) fn again(
        frame: Frame,
        id: i64,
        typed: &Typed,
        current: Option<&Customer>,
        trouble: Trouble,
        timeout: String,
    ) -> Self {
        let unknown = || Customer { id, name: format!("Customer {id}"), ..Customer::default() };
        let customer = current.cloned().unwrap_or_else(unknown);
        let mut page = Self::new(frame, &customer, typed, timeout);
        if let Some(current) = current.filter(|current| current.version != typed.version) {
            page.compares = true;
            page.version = current.version;
            let Typed { name, street, city, phone, note, .. } = Typed::from(current);
            for (field, value) in page.fields.iter_mut().zip([name, street, city, phone, note]) {
                field.current = (value != field.value.replace("\r\n", "\n")).then_some(value);
            }
        }
        page.signs_in = matches!(trouble, Trouble::NoSession);
        page.trouble = Some(trouble);
        page
    }

    pub(crate) fn with_fault_of_user(mut self, fault: String) -> Self {
        self.fault_of_user = Some(fault);
        self
    }

    fn has_faults(&self) -> bool {
        self.fields.iter().any(|field| field.fault.is_some())
    }

    fn can_be_saved(&self) -> bool {
        !matches!(self.trouble, Some(Trouble::NoSuchCustomer(_)))
    }
}

/// A page with that status. The page is shown anew whenever a user comes back to it, and takes nothing from
/// elsewhere.
pub(crate) fn page(status: StatusCode, template: &impl Template) -> Response {
    let html = match template.render() {
        Ok(html) => html,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, html).into_response()
}

pub(crate) async fn style() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"))];
    (headers, include_str!("style.css"))
}
