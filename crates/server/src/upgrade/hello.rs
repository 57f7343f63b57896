//! The first frame.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_wire::{
    BadClientFrame, ClientFrame, Credential, Envelope, FRAME_BYTES, FatalCode, FrameProblem, close,
};
use serde::Deserialize;
use tokio::time::timeout;

use super::forward::{UpgradeHead, hand_on};
use crate::access::Initiator;
use crate::auth::PresentedCertificate;
use crate::limits::Refused;
use crate::session;
use crate::state::AppState;
use crate::websocket::{
    Admission, Denial, Farewell, Incoming, IncomingFrame, Presented, ReadMode, WebSocketConnection,
    WriteQueue,
};

/// A connection as it was opened.
pub(super) struct Opened {
    pub(super) scope: ConnectionScope,
    pub(super) initiator: Initiator,
    pub(super) certificate: PresentedCertificate,
    pub(super) user_agent: Option<String>,
    /// Present if it may have to be handed on to another node.
    pub(super) head: Option<UpgradeHead>,
}

/// The bucket and partition that a connection is about.
#[derive(Debug, Deserialize)]
pub(crate) struct ConnectionScope {
    #[serde(default = "default_bucket")]
    pub(super) bucket: String,
    #[serde(default)]
    pub(super) partition: String,
}

fn default_bucket() -> String {
    "default".to_owned()
}

/// Reads the `hello`, then runs the session that it begins or goes on with.
pub(super) async fn read_hello(
    state: Arc<AppState>,
    opened: Opened,
    mut connection: WebSocketConnection,
    patience: Duration,
) {
    let Opened { scope, initiator, certificate, user_agent, head } = opened;
    let nothing = &mut WriteQueue::default();
    let first = async {
        loop {
            match connection.next(nothing, ReadMode::All).await {
                Incoming::Control => {}
                first => return first,
            }
        }
    };
    let first = timeout(patience, first).await;
    let farewell = match first {
        Ok(Incoming::Frame(IncomingFrame { index: Some(_), .. })) => {
            fatal(FatalCode::BadFrame, FrameProblem::with_message("the first frame comes alone, in no array"))
        }
        Ok(Incoming::Frame(frame)) => match Envelope::<ClientFrame<'_>>::parse(&frame.text) {
            Ok(Envelope { frame: ClientFrame::Hello(mut hello), .. }) => {
                tracing::debug!(client = hello.client.as_deref(), bucket = scope.bucket, "hello");
                let credential = hello.credential.take().map(Credential::into_owned);
                let ConnectionScope { bucket, partition } = scope;
                let from = connection.from();
                let presented =
                    Presented { credential, certificate, from, initiator, bucket, partition, user_agent };
                match Admission::new(state.authorities(), &state.audit, presented) {
                    Ok(admission) => match state.limiter.admit_tenant(admission.scope.tenant()) {
                        Ok(permit) => {
                            connection.take_permit(permit);
                            if let Some((cluster, head)) = state.houses.cluster().zip(head) {
                                let key = &admission.scope;
                                match hand_on(&state, cluster, &head, key, connection).await {
                                    Some(back) => connection = back,
                                    None => return,
                                }
                            }
                            return session::run(state, admission, hello, connection).await;
                        }
                        Err(why) => session::busy(why.word()),
                    },
                    Err(Denial { code, problem }) => fatal(code, problem),
                }
            }
            Err(BadClientFrame::Fatal(problem)) => fatal(FatalCode::BadFrame, problem),
            Ok(_) | Err(BadClientFrame::Answered { .. }) => no_hello(patience),
        },
        Ok(Incoming::Control) => no_hello(patience),
        Ok(Incoming::TooLarge) => {
            state.limiter.refuse(Refused::FrameBytes);
            let problem = FrameProblem::with_message(format!("a message has at most {FRAME_BYTES} bytes"));
            fatal(FatalCode::TooLarge, problem)
        }
        Ok(Incoming::Malformed(why)) => fatal(FatalCode::BadFrame, FrameProblem::with_message(why)),
        Ok(Incoming::Binary) => Farewell::new(WriteQueue::default(), close::UNSUPPORTED, "binary message"),
        Ok(Incoming::Closed(_)) => return connection.answer_close().await,
        Ok(Incoming::Lost) => return,
        Err(_) => {
            state.limiter.refuse(Refused::HelloTimeout);
            no_hello(patience)
        }
    };
    connection.part(farewell).await;
}

fn fatal(code: FatalCode, problem: FrameProblem<'_>) -> Farewell {
    Farewell::fatal(WriteQueue::default(), code, problem)
}

fn no_hello(patience: Duration) -> Farewell {
    let rule = format!("\"hello\" in the first frame, within {}", humantime::format_duration(patience));
    fatal(FatalCode::BadFrame, FrameProblem::with_field("type", rule))
}
