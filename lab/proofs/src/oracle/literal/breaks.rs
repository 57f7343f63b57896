//! Operators, who end a hold for its holder.

use lockhouse_core::{
    BrokenBy, ClaimEnd, Effect, FencingToken, HoldToBreak, Holder, Instant, LockEnd, LockLoss, LossReason,
    NameBuf, Outcome, Refusal,
};

use super::{Literal, lock_holder};

impl Literal {
    /// All that is held, but for marked rows.
    pub(in crate::oracle) fn holds(&self) -> Vec<(NameBuf, FencingToken)> {
        let web = self.held.iter().map(|lock| (lock.request.name.clone(), lock.token));
        let rows = self.rows.iter().filter(|row| row.voided.is_none());
        let rows = rows.map(|row| (row.name.clone(), row.token));
        let claims = self.claims.iter().map(|(name, claim)| (name.clone(), claim.token));
        claims.chain(rows).chain(web).collect()
    }

    pub(super) fn break_hold(&mut self, now: Instant, hold: &HoldToBreak<'_>) -> Result<Outcome, Refusal> {
        self.check_text(hold.operator, hold.reason)?;
        let name = hold.name.to_buf();
        self.sweep_claim(now, &name);
        let holder = self.broken_holder(now, &name, hold);
        if holder.is_some() {
            self.process_the_lock_request_queue(now, &name);
        }
        Ok(Outcome::Broken(holder.map(Box::new)))
    }

    /// No two holds have the same token.
    fn broken_holder(&mut self, now: Instant, name: &NameBuf, hold: &HoldToBreak<'_>) -> Option<Holder> {
        let reason: Option<Box<str>> = hold.reason.map(Into::into);
        let by = BrokenBy { operator: hold.operator.into(), reason: reason.clone() };
        let is_meant = |of: &NameBuf, token: FencingToken| of == name && token == hold.token;
        if let Some(at) = self.held.iter().position(|lock| is_meant(&lock.request.name, lock.token)) {
            let lock = self.held.remove(at);
            let loss = Box::new(LockLoss { name: name.clone(), reason: LossReason::Broken { reason } });
            let (agent, request) = (lock.request.agent, lock.request.id);
            self.effects.push(Effect::Lost { agent, request, loss });
            return Some(lock_holder(&lock));
        }
        let live = |row: &&super::Row| row.voided.is_none() && is_meant(&row.name, row.token);
        if let Some(row) = self.rows.iter().find(live).cloned() {
            self.delete(now, name, row.owner, LockEnd::Broken(by));
            return Some(self.row_holder(&row));
        }
        let claim = self.claims.get(name).filter(|claim| is_meant(name, claim.token))?;
        let holder = claim.holder();
        self.delete_claim(now, name, ClaimEnd::Broken(by));
        Some(holder)
    }
}
