/** What an invitation's link holds. */
export interface InvitationKey {
  token: string;
  planId: string;
}

export const invitationDays = 14;
const invitationMs = invitationDays * 24 * 60 * 60 * 1000;

export function invitePath({ token, planId }: InvitationKey) {
  return `/invite?token=${encodeURIComponent(token)}&plan=${encodeURIComponent(planId)}`;
}

/** The link as it goes into a mail. */
export function inviteUrl(key: InvitationKey) {
  return window.location.origin + invitePath(key);
}

/** Whole days until an invitation expires, at least one: "12 days". */
export function daysLeft(expiresAt: string) {
  const days = Math.max(1, Math.round((Date.parse(expiresAt) - Date.now()) / (24 * 60 * 60 * 1000)));
  return days === 1 ? "1 day" : `${days} days`;
}

export function isExpired(invitedAt: string) {
  return Date.parse(invitedAt) + invitationMs < Date.now();
}

const storageKey = "basalt.pending-invite";

/** Keeps an invitation that was accepted before signing in. */
export function keepPendingInvite(key: InvitationKey) {
  try {
    localStorage.setItem(storageKey, JSON.stringify({ ...key, at: Date.now() }));
  } catch {
    // Storage may be blocked: the way back from the log-in screen leads to the invitation all the same.
  }
}

export function pendingInvite(): InvitationKey | null {
  try {
    // No zod: the landing page loads this module, too.
    const { token, planId, at } = JSON.parse(localStorage.getItem(storageKey) ?? "{}") as Record<string, unknown>;
    if (typeof token !== "string" || typeof planId !== "string" || typeof at !== "number") return null;
    return at + invitationMs > Date.now() ? { token, planId } : null;
  } catch {
    return null;
  }
}

export function forgetPendingInvite() {
  try {
    localStorage.removeItem(storageKey);
  } catch {
    // As above.
  }
}
