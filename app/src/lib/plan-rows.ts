import { basalt, type Row, type Tables } from "@/lib/basalt";
import { ownWrite } from "@/lib/own-writes";
import { countOf, fetchAllRows } from "@/lib/rows";
import { requireRow } from "@/lib/stale-row";

type PlanPart = "priorities" | "tasks" | "plan_attachments";
type Edited = "plans" | "priorities" | "tasks";
type Deleted = PlanPart | "plans" | "plan_members";

// The client's types want one table: callers are held to theirs, and in here only what all of them have is named.
type AnyUpdate = Tables["tasks"]["Update"];
const anyOf = (table: Deleted) => table as "tasks";

const gone = (thing: string) => `This ${thing} no longer exists, or you may not change it.`;

/** What a plan has of this: in the order that its members gave it, where there is one, and newest first. */
export function fetchOfPlan<Name extends PlanPart>(table: Name, planId: string, signal: AbortSignal) {
  return fetchAllRows((from, to) => {
    const rows = basalt
      .from(table as PlanPart)
      .select("*", countOf(from))
      .eq("plan_id", planId);
    return (table === "plan_attachments" ? rows : rows.order("position"))
      .order("created_at", { ascending: false })
      .order("id")
      .range(from, to)
      .abortSignal(signal)
      .throwOnError();
  }) as Promise<unknown> as Promise<Row<Name>[]>;
}

// As `lib/own-writes` needs it.
type VersionColumns = "id, updated_at, position";
const versionOf = (table: Deleted) =>
  (table === "tasks" || table === "priorities" ? "id, updated_at, position" : "id, updated_at") as VersionColumns;

/** Changes a row if it still has what the person has seen of it. `false` when it has not: nothing was written then. */
export async function updateSeen<Name extends Edited>(
  table: Name,
  seen: { id: string } & ({ updated_at: string } | { title: string }),
  change: Tables[Name]["Update"],
  thing: string,
) {
  const rows = basalt.from(anyOf(table));
  const write = rows
    .update(change as AnyUpdate)
    .match(seen)
    .select(versionOf(table))
    .maybeSingle()
    .throwOnError();
  if (await ownWrite(seen.id, write)) return true;
  const now = await rows.select("id").eq("id", seen.id).maybeSingle().throwOnError();
  requireRow(now.data, gone(thing));
  return false;
}

/** Changes what does not depend on what was there before. */
export async function updateRow<Name extends Edited | "plan_members">(
  table: Name,
  id: string,
  change: Tables[Name]["Update"],
  thing: string,
) {
  const write = basalt
    .from(anyOf(table))
    .update(change as AnyUpdate)
    .eq("id", id)
    .select(versionOf(table))
    .maybeSingle()
    .throwOnError();
  requireRow(await ownWrite(id, write), gone(thing));
}

export async function deleteRow(table: Deleted, id: string, thing: string) {
  const { data } = await basalt.from(table).delete().eq("id", id).select("id").maybeSingle().throwOnError();
  requireRow(data, gone(thing));
}

/** Puts a row before another one of its list, or last. */
export async function moveRow(table: "priorities" | "tasks", id: string, beforeId: string | null, thing: string) {
  const before = beforeId === null ? {} : { before_id: beforeId };
  const write =
    table === "priorities"
      ? basalt
          .rpc("move_priority", { priority_id: id, ...before })
          .select(versionOf(table))
          .maybeSingle()
          .throwOnError()
      : basalt
          .rpc("move_task", { task_id: id, ...before })
          .select(versionOf(table))
          .maybeSingle()
          .throwOnError();
  requireRow(await ownWrite(id, write), gone(thing));
}
