//! The settings that a running server takes anew.

use super::life::Server;
use crate::auth::{self, Authority};
use crate::settings::{LimitOutOfRange, LimitSettings};

/// New settings would begin authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "authentication begins only with a new start of the server: there must be no keys, issuers and certificates, as before"
)]
pub struct AuthenticationStays;

/// The reason why a running server does not take new settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// Settings of authentication that cannot be taken.
    #[error(transparent)]
    Authentication(#[from] AuthenticationStays),
    /// Settings of limits that cannot be taken.
    #[error(transparent)]
    Limits(#[from] LimitOutOfRange),
}

impl Server {
    /// Takes other settings over, each as [`Self::reload_auth`] and [`Self::reload_limits`] do.
    ///
    /// # Errors
    ///
    /// Theirs; then nothing is taken over.
    pub fn reload(&self, authority: Authority, limits: LimitSettings) -> Result<(), NotReloaded> {
        limits.check()?;
        self.reload_auth(authority)?;
        self.take_over(limits);
        Ok(())
    }

    /// Takes other bounds over, as far as a running server can; see
    /// [`LimitSetting::is_reloadable`](crate::LimitSetting::is_reloadable).
    ///
    /// # Errors
    ///
    /// [`LimitOutOfRange`]; then none is taken over.
    pub fn reload_limits(&self, limits: LimitSettings) -> Result<(), LimitOutOfRange> {
        limits.check()?;
        self.take_over(limits);
        Ok(())
    }

    fn take_over(&self, limits: LimitSettings) {
        if let Some(budget) = self.state.houses.memory_budget() {
            budget.set(limits.table_bytes());
        }
        self.state.limiter.reload(limits);
    }

    /// Authenticates by that authority from now on. Sessions whose credential is not taken any more, or may
    /// do less than before, end at once, their locks with them; each later call is authenticated anew. Where
    /// the last key, issuer and certificate is gone, no client is admitted.
    ///
    /// # Errors
    ///
    /// [`AuthenticationStays`]: clients that were admitted without a credential would be kept out.
    pub fn reload_auth(&self, authority: Authority) -> Result<(), AuthenticationStays> {
        let authority = match (self.state.authority().is_open(), authority.is_open()) {
            (true, false) => return Err(AuthenticationStays),
            (false, true) => {
                tracing::warn!(
                    "there are no keys, issuers and certificates any more: nobody is admitted until there are, and the next start is one without authentication, on loopback addresses only"
                );
                Authority::shut()
            }
            _ => authority,
        };
        self.state.set_authority(authority);
        Ok(())
    }

    /// As [`reload_auth`](Self::reload_auth), by settings of which another part cannot be taken: a credential
    /// that is gone from them is gone, and an issuer whose keys cannot be read stays as it was. Returns
    /// whether they were taken; without authentication there is nothing to take away.
    pub fn renew_auth(&self, settings: &auth::Settings) -> bool {
        let former = self.state.authority();
        let next = former.renewed(settings).ok().filter(|_| !former.is_open());
        next.is_some_and(|next| self.reload_auth(next).is_ok())
    }

    /// Looks at the files of keys that issuers may change. Revalidates all sessions if any has other keys.
    pub fn look_at_issuers(&self) {
        if self.state.authority().look_at_files() {
            self.state.revalidate();
        }
    }

    /// Revalidates all sessions, as something has changed that decides on them: the CAs of client
    /// certificates, once [`Tls`](crate::Tls) has loaded others.
    pub fn revalidate(&self) {
        self.state.revalidate();
    }
}
