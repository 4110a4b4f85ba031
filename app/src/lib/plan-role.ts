export type PlanRole = "owner" | "manager" | "viewer";

export const planRoles: PlanRole[] = ["owner", "manager", "viewer"];

/** Anything unknown counts as the role with the fewest rights. */
export function toPlanRole(role: string | null | undefined): PlanRole {
  return role === "owner" || role === "manager" ? role : "viewer";
}

/** What the screen offers; what may be done, policies decide. */
export function canEdit(role: PlanRole | null) {
  return role === "owner" || role === "manager";
}
