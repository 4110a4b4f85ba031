import type { User } from "@supabase/supabase-js";
import { basalt, type Row } from "@/lib/basalt";
import { saveFile } from "@/lib/csv";
import { countOf, fetchAllRows } from "@/lib/rows";

type Exported = "plans" | "priorities" | "tasks" | "plan_members" | "plan_attachments" | "organizations";

/** All rows of a table that the person may read. */
function rowsOf<Name extends Exported>(table: Name) {
  return fetchAllRows((from, to) =>
    basalt
      .from(table as "plans")
      .select("*", countOf(from))
      .order("id")
      .range(from, to)
      .throwOnError(),
  ) as Promise<unknown> as Promise<Row<Name>[]>;
}

/** Everything that the app stores for a person, as far as the person may see it. Invitation tokens stay out: they are keys. */
export async function collectMyData(user: User) {
  const [plans, priorities, tasks, members, attachments, organizations, subscription] = await Promise.all([
    rowsOf("plans"),
    rowsOf("priorities"),
    rowsOf("tasks"),
    rowsOf("plan_members"),
    rowsOf("plan_attachments"),
    rowsOf("organizations"),
    basalt.rpc("get_user_subscription", { user_id: user.id }).throwOnError(),
  ]);
  const of = <Part extends { plan_id: string }>(rows: Part[], planId: string) =>
    rows.filter(({ plan_id: id }) => id === planId);
  return {
    exported_at: new Date().toISOString(),
    account: {
      id: user.id,
      email: user.email,
      created_at: user.created_at,
      last_sign_in_at: user.last_sign_in_at,
      profile: user.user_metadata,
      sign_in_methods: (user.identities ?? []).map(({ provider, created_at }) => ({ provider, created_at })),
    },
    subscription: subscription.data,
    plans: plans.map((plan) => ({
      ...plan,
      organization: organizations.find(({ plan_id: id }) => id === plan.id) ?? null,
      team: of(members, plan.id).map(({ invite_token: _, ...member }) => member),
      priorities: of(priorities, plan.id).map((priority) => ({
        ...priority,
        tasks: tasks.filter(({ priority_id: id }) => id === priority.id),
      })),
      files: of(attachments, plan.id),
    })),
  };
}

export async function saveMyData(user: User) {
  const data = await collectMyData(user);
  saveFile("my-basalt-data.json", JSON.stringify(data, null, 2), "application/json");
}

/** Saves each file of the person's plans; resolves to how many could not be fetched. */
export async function saveMyFiles(files: { title: string; file_url: string }[]) {
  let missing = 0;
  for (const { title, file_url: path } of files) {
    const { data } = await basalt.storage.from("plan_files").download(path);
    if (data) saveBlob(`${title}${/\.\w+$/.exec(path)?.[0] ?? ""}`, data);
    else missing += 1;
  }
  return missing;
}

function saveBlob(name: string, blob: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const myFiles = () => rowsOf("plan_attachments");

/** What becomes of the plans that the person owns, should the account be deleted. */
export async function fateOfMyPlans(userId: string) {
  const [plans, members] = await Promise.all([rowsOf("plans"), rowsOf("plan_members")]);
  const owners = (planId: string) =>
    members.filter((member) => member.plan_id === planId && member.role === "owner" && member.invite_accepted);
  const mine = plans.filter(({ id }) => owners(id).some(({ user_id: owner }) => owner === userId));
  return {
    deleted: mine.filter(({ id }) => owners(id).length === 1),
    kept: mine.filter(({ id }) => owners(id).length > 1),
  };
}

const mostAtOnce = 100;

/** Removes the files of these plans. */
export async function removeFilesOf(planIds: string[]) {
  const files = (await myFiles()).filter(({ plan_id: id }) => planIds.includes(id)).map(({ file_url: path }) => path);
  for (let first = 0; first < files.length; first += mostAtOnce) {
    const { error } = await basalt.storage.from("plan_files").remove(files.slice(first, first + mostAtOnce));
    if (error) throw error;
  }
}
