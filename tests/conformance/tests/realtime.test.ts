import type { RealtimeChannel, SupabaseClient } from "@supabase/supabase-js";
import { createClient } from "@supabase/supabase-js";
import { afterEach, describe, expect, test } from "vitest";
import { client, unique } from "../support/clients";
import { anonKey, publishableKey, serviceKey, url } from "../support/environment";

const opened: SupabaseClient[] = [];

/** A client whose socket is closed after the test. */
function open(key = anonKey): SupabaseClient {
  const made = client(key);
  opened.push(made);
  return made;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.removeAllChannels()));
});

/** Resolves when the channel is joined. */
function joined(channel: RealtimeChannel): Promise<RealtimeChannel> {
  return new Promise((resolve, reject) => {
    channel.subscribe((status, error) => {
      if (status === "SUBSCRIBED") resolve(channel);
      else reject(error ?? new Error(status));
    });
  });
}

interface Collected<T> {
  all: T[];
  /** Resolves when `count` of them have arrived. */
  until(count: number): Promise<T[]>;
}

function collect<T>(): Collected<T> & { push(item: T): void } {
  const all: T[] = [];
  const waiting: { count: number; resolve: (all: T[]) => void }[] = [];
  return {
    all,
    push(item) {
      all.push(item);
      for (const each of waiting) if (all.length >= each.count) each.resolve(all);
    },
    until: (count) =>
      new Promise((resolve) => {
        if (all.length >= count) resolve(all);
        else waiting.push({ count, resolve });
      }),
  };
}

interface Received {
  event: string;
  payload: unknown;
  type: string;
}

function listen(channel: RealtimeChannel, event: string) {
  const received = collect<Received>();
  channel.on("broadcast", { event }, (message) => received.push(message as Received));
  return received;
}

describe("broadcast", () => {
  test.each([
    ["the legacy key", anonKey],
    ["the publishable key", publishableKey],
  ])("with %s, from one client to the other, and not to itself", async (_, key) => {
    const topic = unique("room");
    const [ann, bob] = [open(key).channel(topic), open(key).channel(topic)];
    const [byAnn, byBob, everything] = [listen(ann, "cursor"), listen(bob, "cursor"), listen(bob, "*")];
    await Promise.all([joined(ann), joined(bob)]);
    expect(await ann.send({ type: "broadcast", event: "cursor", payload: { x: 1.5, list: [null, "ü"] } })).toBe("ok");
    await ann.send({ type: "broadcast", event: "other", payload: {} });
    await everything.until(2);
    expect(byBob.all).toEqual([{ type: "broadcast", event: "cursor", payload: { x: 1.5, list: [null, "ü"] } }]);
    expect(byAnn.all).toEqual([]);
  });

  test("self and ack options", async () => {
    const channel = open().channel(unique("room"), { config: { broadcast: { self: true, ack: true } } });
    const received = listen(channel, "x");
    await joined(channel);
    for (let number = 0; number < 20; number++) {
      expect(await channel.send({ type: "broadcast", event: "x", payload: { number } })).toBe("ok");
    }
    const all = await received.until(20);
    expect(all.map(({ payload }) => (payload as { number: number }).number)).toEqual([...Array(20).keys()]);
  });

  test("binary payloads", async () => {
    const topic = unique("room");
    const [ann, bob] = [open().channel(topic), open().channel(topic)];
    const received = listen(bob, "bytes");
    await Promise.all([joined(ann), joined(bob)]);
    const bytes = new Uint8Array([0, 1, 254, 255]);
    await ann.send({ type: "broadcast", event: "bytes", payload: bytes.buffer as unknown as Record<string, unknown> });
    const [message] = await received.until(1);
    expect(new Uint8Array(message?.payload as ArrayBuffer)).toEqual(bytes);
  });

  test("over HTTP without joining", async () => {
    const topic = unique("room");
    const channel = open().channel(topic);
    const received = listen(channel, "*");
    await joined(channel);
    const other = open().channel(topic);
    expect(await other.httpSend("news", { n: 1 })).toEqual({ success: true });
    const [message] = await received.until(1);
    expect(message).toMatchObject({ event: "news", payload: { n: 1 } });
  });

  test("with serializer 1.0.0 on one side", async () => {
    const topic = unique("room");
    const old = createClient(url, anonKey, {
      auth: { persistSession: false },
      realtime: { vsn: "1.0.0" } as Record<string, unknown>,
    });
    opened.push(old);
    const [ann, bob] = [open().channel(topic), old.channel(topic)];
    const [byAnn, byBob] = [listen(ann, "x"), listen(bob, "x")];
    await Promise.all([joined(ann), joined(bob)]);
    await ann.send({ type: "broadcast", event: "x", payload: { from: "ann" } });
    await byBob.until(1);
    await bob.send({ type: "broadcast", event: "x", payload: { from: "bob" } });
    await byAnn.until(1);
    expect([byAnn.all[0]?.payload, byBob.all[0]?.payload]).toEqual([{ from: "bob" }, { from: "ann" }]);
  });
});

describe("presence", () => {
  test("joins, updates and leaves are seen by all", async () => {
    const topic = unique("room");
    const channel = (key: string) => open().channel(topic, { config: { presence: { key } } });
    const [ann, bob] = [channel("ann"), channel("bob")];
    const events = collect<{ event: string; key?: string }>();
    for (const event of ["join", "leave"] as const) {
      ann.on("presence", { event } as { event: "join" }, (it) => events.push(it));
    }
    const synced = collect<string[]>();
    ann.on("presence", { event: "sync" }, () => synced.push(Object.keys(ann.presenceState()).sort()));
    bob.on("presence", { event: "sync" }, () => undefined);
    await joined(ann);
    expect(await ann.track({ n: 1 })).toBe("ok");
    await joined(bob);
    expect(await bob.track({ n: 2 })).toBe("ok");
    await expect.poll(() => synced.all.at(-1)).toEqual(["ann", "bob"]);
    await expect.poll(() => Object.keys(bob.presenceState()).sort()).toEqual(["ann", "bob"]);
    expect(bob.presenceState<{ n: number }>().ann).toMatchObject([{ n: 1 }]);
    expect(await ann.track({ n: 3 })).toBe("ok");
    await expect.poll(() => bob.presenceState<{ n: number }>().ann?.[0]?.n).toBe(3);
    await bob.unsubscribe();
    await expect.poll(() => synced.all.at(-1)).toEqual(["ann"]);
    expect(events.all.map(({ event, key }) => `${event} ${key}`)).toContain("leave bob");
    expect(await ann.untrack()).toBe("ok");
    await expect.poll(() => ann.presenceState()).toEqual({});
  });
});

describe("channels", () => {
  test("leave and rejoin the same topic", async () => {
    const basalt = open();
    const topic = unique("room");
    const first = await joined(basalt.channel(topic));
    expect(await basalt.removeChannel(first)).toBe("ok");
    const second = await joined(basalt.channel(topic));
    expect(second.state).toBe("joined");
  });

  test("private channel without policy: only service_role", async () => {
    const topic = unique("room");
    const refused = joined(open().channel(topic, { config: { private: true } }));
    await expect(refused).rejects.toThrow(
      `Unauthorized: You do not have permissions to read from this Channel topic: ${topic}`,
    );
    const [ann, bob] = [serviceKey, serviceKey].map((key) => {
      const basalt = open(key);
      return basalt.channel(topic, { config: { private: true, broadcast: { ack: true } } });
    }) as [RealtimeChannel, RealtimeChannel];
    const received = listen(bob, "x");
    await Promise.all([joined(ann), joined(bob)]);
    expect(await ann.send({ type: "broadcast", event: "x", payload: {} })).toBe("ok");
    await received.until(1);
  });

  test("fifty channels on one socket", async () => {
    const basalt = open();
    const topics = Array.from({ length: 50 }, () => unique("room"));
    const channels = await Promise.all(topics.map((topic) => joined(basalt.channel(topic))));
    expect(new Set(channels.map(({ state }) => state))).toEqual(new Set(["joined"]));
  });
});
