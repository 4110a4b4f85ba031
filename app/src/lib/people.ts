import { queryOptions } from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";

/** Someone of a plan, as colleagues see them. */
export interface Person {
  id: string;
  name: string;
  /** Path of a picture on this server. */
  picture: string | undefined;
  /** Null for those who have left the team. */
  email: string | null;
  isMember: boolean;
}

/** Below the members' key: what changes the team changes this. */
export const peopleKey = (planId: string) => ["members", "people", planId] as const;

/** The people of a plan, by user id: its members, and those who left and are named in its comments or activity. */
export const peopleQuery = (planId: string) =>
  queryOptions({
    queryKey: peopleKey(planId),
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("get_plan_people", { plan: planId }).abortSignal(signal).throwOnError();
      // The generator takes every column of a function for filled.
      const rows = data as {
        user_id: string;
        name: string;
        picture: string | null;
        email: string | null;
        role: string | null;
      }[];
      return new Map(
        rows.map(({ user_id: id, name, picture, email, role }): [string, Person] => [
          id,
          { id, name, picture: picture ?? undefined, email, isMember: role !== null },
        ]),
      );
    },
    staleTime: 60_000,
  });

export const initialIn = (name: string) => ([...name.trim()][0] ?? "?").toUpperCase();
