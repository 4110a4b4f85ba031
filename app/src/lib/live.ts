import type { RealtimeChannel } from "@supabase/supabase-js";
import { basalt, type Table } from "@/lib/basalt";

// Channels that this page wants to be in and is not.
const lost = new Set<symbol>();
const listeners = new Set<() => void>();

function mark(watch: symbol, isJoined: boolean) {
  const wasLive = isLive();
  if (isJoined) lost.delete(watch);
  else lost.add(watch);
  if (isLive() !== wasLive) for (const listener of listeners) listener();
}

/** Whether the server tells this page what changes. */
export const isLive = () => lost.size === 0;

export function watchLive(changed: () => void) {
  listeners.add(changed);
  return () => void listeners.delete(changed);
}

// The client joins again by itself after errors, but not where the server closed a channel in good order.
const comeBackMs = 5000;

interface Joining {
  /** Makes the channel, with its listeners, and does not subscribe. */
  open: () => RealtimeChannel;
  /** For the first time or again: what happened before, or while the socket was away, is not replayed. */
  onJoined: (channel: RealtimeChannel) => void;
}

/** Stays in a channel, whatever befalls the connection, until it is told to leave. */
export function stayJoined({ open, onJoined }: Joining) {
  const watch = Symbol("watch");
  let left = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let channel: RealtimeChannel;

  function join() {
    const joining = open();
    channel = joining;
    joining.subscribe((status) => {
      if (left || channel !== joining) return;
      mark(watch, status === "SUBSCRIBED");
      if (status === "SUBSCRIBED") onJoined(joining);
      if (status === "CLOSED") timer = setTimeout(join, comeBackMs);
    });
  }

  join();
  return () => {
    left = true;
    clearTimeout(timer);
    mark(watch, true);
    return basalt.removeChannel(channel);
  };
}

let topics = 0;

interface TableWatch {
  /** Called on joining, and for each change; with a filter, for each INSERT and UPDATE that passes it. */
  changed: () => void;
  filter?: string | undefined;
  /** With a filter: called for each DELETE in the table, with the row's id. */
  deleted?: (id: unknown) => void;
}

/** Watches a table until the function that it returns is called. */
export function watchTable(table: Table, { changed, filter, deleted = changed }: TableWatch) {
  const rows = { schema: "public", table } as const;
  const leave = stayJoined({
    open: () => {
      // `channel()` returns an existing channel of the same topic, and adding a listener to a joined one throws, so
      // every watch takes a topic of its own.
      topics += 1;
      const channel = basalt.channel(`invalidate:${table}:${topics}`);
      if (!filter) return channel.on("postgres_changes", { event: "*", ...rows }, () => changed());
      // Under row-level security a DELETE matches filters on the primary key only, so deletions come unfiltered.
      return channel
        .on("postgres_changes", { event: "INSERT", ...rows, filter }, () => changed())
        .on("postgres_changes", { event: "UPDATE", ...rows, filter }, () => changed())
        .on("postgres_changes", { event: "DELETE", ...rows }, (change) => deleted(change.old.id));
    },
    onJoined: changed,
  });
  return () => void leave();
}
