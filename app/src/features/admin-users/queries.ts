import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import type { Database } from "@/lib/database.types";
import { requireRow } from "@/lib/stale-row";

type Listed = Database["public"]["Functions"]["admin_list_users"]["Returns"][number];
/** The generator takes every column of a function for filled. */
export type Account = Omit<Listed, "email" | "name" | "organization" | "last_sign_in_at" | "subscription_status"> & {
  email: string | null;
  name: string | null;
  organization: string | null;
  last_sign_in_at: string | null;
  subscription_status: string | null;
};

const pageSize = 50;
const usersKey = ["admin-users"] as const;

/** Accounts, the newest first, in pages that the database makes. */
export const userListQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: [...usersKey, search] as const,
    queryFn: async ({ signal, pageParam }) => {
      const { data } = await basalt
        .rpc("admin_list_users", {
          ...(search !== "" && { search_text: search }),
          page_size: pageSize,
          page_offset: pageParam,
        })
        .abortSignal(signal)
        .throwOnError();
      return data as Account[];
    },
    initialPageParam: 0,
    getNextPageParam: (last, _pages, offset) => (last.length === pageSize ? offset + pageSize : null),
    select: ({ pages }) => ({
      // An account made between two pages moves the last of the first into the second.
      accounts: [...new Map(pages.flat().map((account) => [account.id, account])).values()],
      total: pages.at(-1)?.[0]?.total ?? pages[0]?.[0]?.total ?? 0,
    }),
    placeholderData: keepPreviousData,
  });

export function useAppoint() {
  return useChange({
    change: async (account: Account) => {
      await basalt
        .from("user_roles")
        .upsert({ user_id: account.id, role: "admin" }, { onConflict: "user_id,role", ignoreDuplicates: true })
        .throwOnError();
    },
    done: "Administrator appointed",
    failed: "Error updating role",
    refetches: [usersKey],
  });
}

export function useDismiss() {
  return useChange({
    change: async (account: Account) => {
      const { data } = await basalt
        .from("user_roles")
        .delete()
        .eq("user_id", account.id)
        .eq("role", "admin")
        .select("user_id")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
    },
    done: "Administrator dismissed",
    failed: "Error updating role",
    // Their own role may be what went.
    refetches: [usersKey, ["admin"]],
  });
}

export function useSetDisabled(disabled: boolean) {
  return useChange({
    change: async (account: Account) => {
      await basalt.rpc("admin_set_user_disabled", { user_id: account.id, disabled }).throwOnError();
    },
    done: disabled ? "Account disabled" : "Account enabled",
    failed: disabled ? "Error disabling account" : "Error enabling account",
    refetches: [usersKey],
  });
}
