import type { PlanRole } from "@/lib/plan-role";

/** What each role is called, and what it may do. */
export const roleRights: Record<PlanRole, { name: string; rights: string }> = {
  owner: { name: "Owner", rights: "Full control" },
  manager: { name: "Manager", rights: "Can add & edit content" },
  viewer: { name: "Viewer", rights: "Can only view" },
};
