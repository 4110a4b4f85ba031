import { queryOptions } from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";

/** Something that the palette leads to. */
export interface Hit {
  key: string;
  kind: "Plan" | "Priority" | "Task" | "Member" | "Page";
  label: string;
  path: string;
  planId?: string;
  /** The plan it belongs to. */
  hint?: string | undefined;
}

/** Fewer letters than this find too much. */
export const minLetters = 2;
/** Of each kind. */
const most = 6;

export function planHits(plans: { id: string; title: string }[]): Hit[] {
  return plans.map(({ id, title }) => ({ key: id, kind: "Plan", label: title, path: `/plan/${id}` }));
}

export function pageHits(isAdmin: boolean): Hit[] {
  const pages = [
    ["Strategic Plans", "/dashboard"],
    ["Subscription", "/dashboard/subscription"],
    ["Your account", "/account"],
    ...(isAdmin
      ? [
          ["Admin Overview", "/admin"],
          ["Users", "/admin/users"],
          ["Subscription Plans Management", "/admin/subscription-plans"],
          ["Marketing content", "/admin/marketing"],
          ["Email integration", "/admin/integrations/email"],
          ["Webhook Management", "/admin/webhooks"],
          ["Health", "/admin/health"],
          ["Audit log", "/admin/audit-log"],
          ["App settings", "/admin/settings"],
        ]
      : []),
  ];
  return pages.map(([label = "", path = ""]) => ({ key: path, kind: "Page", label, path }));
}

/** Those that have all words of a text, as many as are shown. */
export function matching(hits: Hit[], text: string): Hit[] {
  const words = text.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ label }: Hit) => words.every((word) => label.toLocaleLowerCase().includes(word));
  return hits.filter(fits).slice(0, most);
}

/** A text as a pattern of ILIKE, with its words in any place one after the other. */
export function patternOf(text: string) {
  // PostgREST reads `*` as `%`, and has no way to write the character itself.
  const literal = text.replace(/[\\%_]/g, "\\$&").replaceAll("*", "_");
  return `%${literal.split(/\s+/).join("%")}%`;
}

/** What the server finds: in all plans that the person may see. */
export const foundQuery = (text: string) =>
  queryOptions({
    queryKey: ["found", text] as const,
    queryFn: async ({ signal }): Promise<Hit[]> => {
      const pattern = patternOf(text);
      const [priorities, tasks, people] = await Promise.all([
        basalt
          .from("priorities")
          .select("id, title, plan_id")
          .ilike("title", pattern)
          .order("created_at", { ascending: false })
          .limit(most)
          .abortSignal(signal)
          .throwOnError(),
        basalt
          .from("tasks")
          .select("id, title, plan_id")
          .ilike("title", pattern)
          .order("is_completed")
          .order("created_at", { ascending: false })
          .limit(most)
          .abortSignal(signal)
          .throwOnError(),
        basalt
          .from("plan_members")
          .select("id, email, plan_id")
          .ilike("email", pattern)
          .order("created_at", { ascending: false })
          .limit(most)
          .abortSignal(signal)
          .throwOnError(),
      ]);
      const inPlan = (planId: string, search: string) => `/plan/${planId}?${search}`;
      return [
        ...priorities.data.map(({ id, title, plan_id: planId }) => ({
          key: id,
          kind: "Priority" as const,
          label: title,
          planId,
          path: inPlan(planId, `priority=${id}`),
        })),
        ...tasks.data.map(({ id, title, plan_id: planId }) => ({
          key: id,
          kind: "Task" as const,
          label: title,
          planId,
          path: inPlan(planId, `task=${id}`),
        })),
        ...people.data.map(({ id, email, plan_id: planId }) => ({
          key: id,
          kind: "Member" as const,
          label: email ?? "",
          planId,
          path: inPlan(planId, "tab=team"),
        })),
      ];
    },
    staleTime: 10_000,
  });
