/** The invitation that a visitor accepted before they logged in or signed up. The account screens carry it in the history's state. */
export interface Invited {
  planTitle: string;
  /** Who invites; null where that is no longer known. */
  inviter: string | null;
  email: string;
  /** The token of the invitation's mail, which proves the address; null for a copied link. */
  proof: string | null;
  /** Where the invitation is accepted. */
  path: string;
}

/** For `navigate`: the guard leads back to the invitation. */
export function invitedState(invited: Invited) {
  return { returnTo: invited.path, invited };
}

export function invitedIn(state: unknown): Invited | null {
  if (!state || typeof state !== "object" || !("invited" in state)) return null;
  const { planTitle, inviter, email, proof, path } = (state.invited ?? {}) as Record<string, unknown>;
  if (typeof planTitle !== "string" || typeof email !== "string" || typeof path !== "string") return null;
  return {
    planTitle,
    email,
    path,
    inviter: typeof inviter === "string" ? inviter : null,
    proof: typeof proof === "string" ? proof : null,
  };
}

/** "You are invited to Warm meals by Maria" */
export function invitedHeading({ planTitle, inviter }: Pick<Invited, "planTitle" | "inviter">) {
  return `You are invited to ${planTitle}${inviter ? ` by ${inviter}` : ""}`;
}
