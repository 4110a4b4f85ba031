import type { RealtimeChannel, RealtimePostgresChangesPayload, SupabaseClient } from "@supabase/supabase-js";
import { afterEach, describe, expect, test } from "vitest";
import { client, person, service, unique } from "../support/clients";
import { anonKey } from "../support/environment";

type Row = Record<string, unknown>;
type Change = RealtimePostgresChangesPayload<Row>;
type Event = "*" | "INSERT" | "UPDATE" | "DELETE";

const opened: SupabaseClient[] = [];
const admin = service();

/** A client whose socket is closed after the test. */
function open(made = client(anonKey)): SupabaseClient {
  opened.push(made);
  return made;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.removeAllChannels()));
});

interface Filter {
  event?: Event;
  table?: string;
  filter?: string;
}

/** A joined channel with one listener for each filter, and what each has received. */
async function watch(basalt: SupabaseClient, ...filters: Filter[]) {
  const received: Change[][] = filters.map(() => []);
  const system: { status: string; message: string }[] = [];
  const waiting: (() => void)[] = [];
  const wake = () => {
    for (const each of waiting.splice(0)) each();
  };
  let channel: RealtimeChannel = basalt.channel(unique("changes"));
  for (const [index, { event = "*", ...filter }] of filters.entries()) {
    // The client has one overload for each event.
    channel = channel.on("postgres_changes", { event: event as "*", schema: "public", ...filter }, (change) => {
      received[index]?.push(change as Change);
      wake();
    });
  }
  channel = channel.on("system", {}, (message: { status: string; message: string }) => {
    system.push(message);
    wake();
  });
  await new Promise<void>((resolve, reject) => {
    channel.subscribe((status, error) => {
      if (status === "SUBSCRIBED") resolve();
      else reject(error ?? new Error(status));
    });
  });
  const until = async <T>(list: T[], count: number): Promise<T[]> => {
    while (list.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
    return list;
  };
  return {
    channel,
    received: received[0] as Change[],
    all: received,
    system,
    until: (count: number, index = 0) => until(received[index] as Change[], count),
    untilSystem: (count: number) => until(system, count),
  };
}

/** Runs as the service role; fails on an error of PostgreSQL. */
async function run<T>(request: PromiseLike<{ data: T; error: unknown }>): Promise<T> {
  const { data, error } = await request;
  expect(error).toBeNull();
  return data;
}

const open_table = () => admin.from("watched_open");
const notes = () => admin.from("watched_notes");

describe("table changes", () => {
  test("changes right after SUBSCRIBED are delivered", async () => {
    const board = unique("board");
    const { until } = await watch(open(), { table: "watched_open", filter: `board=eq.${board}` });
    const [row] = (await run(open_table().insert({ board, title: "a" }).select())) as [Row];
    await run(open_table().update({ title: "b" }).eq("id", row.id));
    await run(open_table().delete().eq("id", row.id));
    const [inserted, updated, deleted] = (await until(3)) as [Change, Change, Change];
    expect(inserted).toEqual({
      schema: "public",
      table: "watched_open",
      commit_timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      eventType: "INSERT",
      new: { id: row.id, board, title: "a" },
      old: {},
      errors: null,
    });
    expect(updated).toMatchObject({ eventType: "UPDATE", new: { title: "b" }, old: { id: row.id, board, title: "a" } });
    expect(deleted).toMatchObject({ eventType: "DELETE", new: {}, old: { id: row.id, board, title: "b" } });
  });

  test("listeners receive only their events", async () => {
    const board = unique("board");
    const filter = `board=eq.${board}`;
    const table = "watched_open";
    const { until, all } = await watch(
      open(),
      { event: "INSERT", table, filter },
      { event: "UPDATE", table, filter },
      { event: "DELETE", table, filter },
      { event: "*", table, filter },
    );
    await run(open_table().insert({ board, title: "a" }));
    await run(open_table().update({ title: "b" }).eq("board", board));
    await run(open_table().delete().eq("board", board));
    await until(3, 3);
    expect(all.map((list) => list.map((change) => change.eventType))).toEqual([
      ["INSERT"],
      ["UPDATE"],
      ["DELETE"],
      ["INSERT", "UPDATE", "DELETE"],
    ]);
  });

  test.each([
    ["eq", "title=eq.b", ["b"]],
    ["neq", "title=neq.b", ["a", "c"]],
    ["in", "title=in.(a,c)", ["a", "c"]],
    ["gt", "title=gt.a", ["b", "c"]],
    ["like", "title=like.%c%", ["c"]],
    ["not.in", "title=not.in.(a)", ["b", "c"]],
    ["is.null", "title=is.null", [null]],
  ])("filter %s", async (_, condition, expected) => {
    const board = unique("board");
    const filter = `board=eq.${board},${condition}`;
    const { until, received } = await watch(
      open(),
      { table: "watched_open", filter },
      { event: "DELETE", table: "watched_open", filter: `board=eq.${board}` },
    );
    await run(open_table().insert(["a", "b", "c", null].map((title) => ({ board, title }))));
    await run(open_table().delete().eq("board", board).eq("title", "a"));
    await until(1, 1);
    expect(
      received.filter((change) => change.eventType === "INSERT").map((change) => (change.new as Row).title),
    ).toEqual(expected);
  });

  test("several channels on a socket", async () => {
    const basalt = open();
    const board = unique("board");
    const one = await watch(basalt, { table: "watched_open", filter: `board=eq.${board}` });
    const two = await watch(basalt, {});
    await run(open_table().insert({ board, title: "a" }));
    await one.until(1);
    while (!two.received.some((change) => (change.new as Row).board === board))
      await two.until(two.received.length + 1);
    expect(one.received).toHaveLength(1);
  });
});

describe("policies", () => {
  test("users get only selectable rows and columns", async () => {
    const [me, you] = await Promise.all([person(), person()]);
    const board = unique("board");
    const mine = await watch(open(me.client), { table: "watched_notes" });
    const yours = await watch(open(you.client), { table: "watched_notes" });
    const nobodys = await watch(open(), { table: "watched_open", filter: `board=eq.${board}` });
    await run(
      notes().insert([
        { board, owner: me.user.id, title: "mine", secret: "x" },
        { board, owner: you.user.id, title: "yours", secret: "y" },
      ]),
    );
    // Rights are checked against the current row, so wait for its INSERT first.
    await mine.until(1);
    // After the change of owner, the new owner receives it and the old one does not.
    await run(notes().update({ owner: you.user.id }).eq("board", board).eq("title", "mine"));
    await run(open_table().insert({ board }));
    await nobodys.until(1);
    await yours.until(2);
    const titles = (list: Change[]) =>
      list
        .filter((change) => (change.new as Row).board === board)
        .map((change) => [change.eventType, (change.new as Row).title]);
    expect(titles(yours.received)).toEqual([
      ["INSERT", "yours"],
      ["UPDATE", "mine"],
    ]);
    expect(titles(mine.received)).toEqual([["INSERT", "mine"]]);
    expect(JSON.stringify([mine.received, yours.received])).not.toMatch(/secret/);
  });

  test("DELETE delivers only the key", async () => {
    const [me, you] = await Promise.all([person(), person()]);
    const board = unique("board");
    const [row] = (await run(notes().insert({ board, owner: me.user.id }).select())) as [Row];
    const yours = await watch(open(you.client), { event: "DELETE", table: "watched_notes", filter: `id=eq.${row.id}` });
    await run(notes().delete().eq("id", row.id));
    expect((await yours.until(1))[0]).toMatchObject({ eventType: "DELETE", old: { id: row.id }, new: {} });
    expect(Object.keys(yours.received[0]?.old ?? {})).toEqual(["id"]);
  });
});

describe("errors", () => {
  test.each([
    [
      "a table that is not published",
      { table: "unwatched" },
      /^Unable to subscribe to changes with given parameters\. Please check Realtime/,
    ],
    ["an unknown column", { table: "watched_open", filter: "nope=eq.1" }, /invalid column for filter nope$/],
    [
      "a value of another type",
      { table: "watched_open", filter: "id=eq.undefined" },
      /22P02 \(invalid_text_representation\) invalid input syntax for type bigint: "undefined"$/,
    ],
    [
      "an unknown operator",
      { table: "watched_open", filter: "id=foo.1" },
      /^Error parsing `filter` params: \["foo", "1"\]$/,
    ],
  ])("%s: joined, with a system message and without changes", async (_, filter, message) => {
    const { untilSystem } = await watch(open(), filter);
    const [reported] = await untilSystem(1);
    expect(reported).toMatchObject({
      extension: "postgres_changes",
      status: "error",
      message: expect.stringMatching(message),
    });
  });

  test("invalid subscription is reported", async () => {
    const { untilSystem } = await watch(open(), { table: "watched_open" });
    expect((await untilSystem(1))[0]).toMatchObject({ status: "ok", message: "Subscribed to PostgreSQL" });
  });
});
