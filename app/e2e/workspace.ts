import type { Page } from "@playwright/test";
import { createClient } from "@supabase/supabase-js";
import type { Database } from "../src/lib/database.types";
import { expect, type Person } from "./fixtures";

type PlanRole = "owner" | "manager" | "viewer";

export interface TaskSeed {
  title: string;
  done?: boolean;
  due?: string;
  by?: string[];
  measure?: string;
  description?: string;
}

/** Creates a plan with priorities, oldest first, and their tasks. */
export async function makePlan(owner: Person, title: string, priorities: Record<string, TaskSeed[]> = {}) {
  const { client } = owner;
  const plan = await client.from("plans").insert({ title, user_id: owner.id }).select("id").single().throwOnError();
  const ids: Record<string, string> = {};
  for (const [name, tasks] of Object.entries(priorities)) {
    const priority = await client
      .from("priorities")
      .insert({ plan_id: plan.data.id, title: name })
      .select("id")
      .single()
      .throwOnError();
    ids[name] = priority.data.id;
    for (const { title: task, done = false, due = null, by = [], measure = null, description = null } of tasks) {
      await client
        .from("tasks")
        .insert({
          priority_id: priority.data.id,
          title: task,
          is_completed: done,
          due_date: due,
          responsible_party: by,
          measure_success: measure,
          description,
        })
        .throwOnError();
    }
  }
  return { id: plan.data.id, priorities: ids };
}

/** Makes a user an accepted member with the service role; workspace-invitations tests the acceptance itself. */
export async function addMember(planId: string, member: Person, role: PlanRole) {
  await server()
    .from("plan_members")
    .insert({
      plan_id: planId,
      user_id: member.id,
      email: member.email,
      role,
      invite_accepted: true,
      invite_token: null,
    })
    .throwOnError();
}

export type SubscriptionRow = Partial<Database["public"]["Tables"]["user_subscriptions"]["Insert"]>;

/** Creates or changes a user's subscription as the server does for Stripe's events. */
export async function subscribe({ id }: Person, row: SubscriptionRow = {}) {
  const word = id.replaceAll("-", "");
  await server()
    .from("user_subscriptions")
    .upsert(
      {
        user_id: id,
        stripe_subscription_id: `sub_${word}`,
        stripe_customer_id: `cus_${word}`,
        status: "active",
        cancel_at_period_end: false,
        current_period_end: "2027-04-30T12:00:00Z",
        state_as_of: new Date().toISOString(),
        ...row,
      },
      { onConflict: "stripe_subscription_id" },
    )
    .throwOnError();
}

/** A client with the service role. `cargo xtask e2e` passes its key; `basalt keys` prints it. */
export function server() {
  const { BASALT_URL: url = "http://127.0.0.1:8000", BASALT_SERVICE_KEY: key } = process.env;
  if (!key)
    throw new Error(
      "BASALT_SERVICE_KEY is not set: these tests need the key that `basalt keys` shows as service_role.",
    );
  return createClient<Database>(url, key, { auth: { persistSession: false, autoRefreshToken: false } });
}

/** The element of a priority. */
export const priorityCard = (page: Page, title: string) => page.getByRole("article", { name: title, exact: true });

export async function expectToast(page: Page, text: string | RegExp) {
  await expect(page.locator("[data-sonner-toast]").filter({ hasText: text }).first()).toBeVisible();
}
