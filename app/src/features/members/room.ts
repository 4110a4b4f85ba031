import type { RealtimeChannel } from "@supabase/supabase-js";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { invalidations, usePollUnlessLive, type WatchedTable } from "@/hooks/use-table-invalidation";
import { basalt } from "@/lib/basalt";
import { bindTable, stayJoined } from "@/lib/live";
import { peopleKey } from "@/lib/people";
import { memberKeys } from "./queries";

// Only ids and roles of members are published, without invitation tokens. A client that changes the team therefore broadcasts it here.
const teamChanged = "team";

const lookAnewMs = 300;

const rooms = new Map<string, RealtimeChannel>();

// All clients of a plan meet in one topic, so a page that comes back to it has to wait until it has left it.
let leaving: Promise<unknown> = Promise.resolve();

/**
 * Joins a plan's channel: refetches what changes in `tables`, and returns who else is present, by user id. Only the plan's
 * members may join (policies of `realtime.messages`), so `isMember` has to be known first.
 */
export function usePlanRoom(planId: string, userId: string, isMember: boolean, tables: WatchedTable[]) {
  const queryClient = useQueryClient();
  const [present, setPresent] = useState<string[]>([]);
  const tablesJson = JSON.stringify(tables);
  usePollUnlessLive(tables);
  useEffect(() => {
    if (!isMember) return;
    const watches = invalidations(queryClient, JSON.parse(tablesJson) as WatchedTable[]);
    let leave: (() => Promise<unknown>) | undefined;
    let gone = false;
    let pending: ReturnType<typeof setTimeout> | undefined;
    const lookAnew = () => {
      pending = undefined;
      void queryClient.invalidateQueries({ queryKey: memberKeys.list(planId) });
      void queryClient.invalidateQueries({ queryKey: peopleKey(planId) });
      // The person's own role, and whether they may still see the plan.
      void queryClient.invalidateQueries({ queryKey: ["plans"] });
    };
    const lookAnewSoon = () => {
      // Many at once are one.
      pending ??= setTimeout(lookAnew, lookAnewMs);
    };
    const open = () => {
      const room = basalt.channel(`plan:${planId}`, {
        config: { private: true, presence: { key: userId, enabled: true } },
      });
      rooms.set(planId, room);
      for (const watch of watches) bindTable(room, watch);
      return room
        .on("presence", { event: "sync" }, () => setPresent(Object.keys(room.presenceState())))
        .on("broadcast", { event: teamChanged }, lookAnewSoon);
    };
    const onJoined = (room: RealtimeChannel) => {
      void room.track({});
      for (const { changed } of watches) changed();
    };
    void leaving.then(() => {
      if (!gone) leave = stayJoined({ open, onJoined, onClosed: lookAnewSoon });
    });
    return () => {
      gone = true;
      clearTimeout(pending);
      rooms.delete(planId);
      if (leave) leaving = leave();
    };
  }, [planId, userId, isMember, queryClient, tablesJson]);
  return present;
}

/** Whoever looks at the plan looks anew who is on its team. */
export function tellTeamChanged(planId: string) {
  const room = rooms.get(planId);
  if (room?.state === "joined") void room.send({ type: "broadcast", event: teamChanged, payload: {} });
}
