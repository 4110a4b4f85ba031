import type { RealtimeChannel } from "@supabase/supabase-js";
import { basalt, type Table } from "@/lib/basalt";
import { isOwnWrite } from "@/lib/own-writes";

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
  /** The server closed the channel, for example because the user may not read it any more. */
  onClosed?: () => void;
}

/** Stays in a channel, whatever befalls the connection, until it is told to leave. */
export function stayJoined({ open, onJoined, onClosed }: Joining) {
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
      if (status !== "CLOSED") return;
      timer = setTimeout(join, comeBackMs);
      onClosed?.();
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

export interface TableWatch {
  table: Table;
  filter?: string | undefined;
  /** Called for each change; with a filter, for each INSERT and UPDATE that passes it. */
  changed: () => void;
  /** Called on joining; by default `changed`. */
  joined?: () => void;
  /** With a filter: called for each DELETE in the table, with the row's id. */
  deleted?: (id: unknown) => void;
}

/** Adds a table's listeners to a channel that is not subscribed yet. */
export function bindTable(channel: RealtimeChannel, { table, filter, changed, deleted = changed }: TableWatch) {
  const rows = { schema: "public", table } as const;
  const written = (change: { new: object }) => {
    if (!isOwnWrite(change.new)) changed();
  };
  if (!filter) {
    channel.on("postgres_changes", { event: "*", ...rows }, written);
    return;
  }
  // Under row-level security a DELETE matches filters on the primary key only, so deletions come unfiltered.
  channel
    .on("postgres_changes", { event: "INSERT", ...rows, filter }, written)
    .on("postgres_changes", { event: "UPDATE", ...rows, filter }, written)
    .on("postgres_changes", { event: "DELETE", ...rows }, (change) => deleted(change.old.id));
}

let topics = 0;

/** Watches tables on one channel until the function that it returns is called. */
export function watchTables(watches: TableWatch[]) {
  const leave = stayJoined({
    open: () => {
      // `channel()` returns an existing channel of the same topic, and adding a listener to a joined one throws, so
      // every watch takes a topic of its own.
      topics += 1;
      const tables = watches.map(({ table }) => table).join(",");
      const channel = basalt.channel(`invalidate:${tables}:${topics}`);
      for (const watch of watches) bindTable(channel, watch);
      return channel;
    },
    onJoined: () => {
      for (const { changed, joined = changed } of watches) joined();
    },
  });
  return () => void leave();
}
