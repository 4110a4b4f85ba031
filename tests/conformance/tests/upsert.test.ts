import { beforeAll, describe, expect, test } from "vitest";
import { type Person, person, unique } from "../support/clients";

let ada: Person;
beforeAll(async () => {
  ada = await person();
});

const setting = (scope: string, key: string) =>
  ada.client.from("settings").select("value, revision").eq("scope", scope).eq("key", key).single();

describe("upsert", () => {
  test("inserts new rows and updates existing ones", async () => {
    const scope = unique("scope");
    const first = await ada.client.from("settings").upsert({ scope, key: "a", value: 1 });
    expect([first.status, first.error]).toEqual([201, null]);
    const second = await ada.client.from("settings").upsert({ scope, key: "a", value: 2 }).select("value");
    expect([second.status, second.data]).toEqual([200, [{ value: 2 }]]);
    const mixed = await ada.client
      .from("settings")
      .upsert([
        { scope, key: "a", value: 3 },
        { scope, key: "b", value: 4 },
      ])
      .select("key, value")
      .order("key");
    expect(mixed.status).toBe(201);
    expect(mixed.data).toEqual([
      { key: "a", value: 3 },
      { key: "b", value: 4 },
    ]);
  });

  test("keeps columns that were not sent", async () => {
    const scope = unique("scope");
    await ada.client.from("settings").insert({ scope, key: "a", value: 1, revision: 5 });
    await ada.client.from("settings").upsert({ scope, key: "a", value: 2 });
    expect((await setting(scope, "a")).data).toEqual({ value: 2, revision: 5 });
  });

  test("ignoreDuplicates returns only inserted rows", async () => {
    const scope = unique("scope");
    await ada.client.from("settings").insert({ scope, key: "a", value: 1 });
    const { data, status } = await ada.client
      .from("settings")
      .upsert(
        [
          { scope, key: "a", value: 9 },
          { scope, key: "b", value: 9 },
        ],
        { ignoreDuplicates: true },
      )
      .select("key");
    expect([status, data]).toEqual([201, [{ key: "b" }]]);
    expect((await setting(scope, "a")).data).toMatchObject({ value: 1 });
  });

  test("onConflict selects another unique key", async () => {
    const sku = unique("sku");
    await ada.client.from("stock").insert({ sku, quantity: 1 });
    const { data, status, error } = await ada.client
      .from("stock")
      .upsert({ sku, quantity: 2 }, { onConflict: "sku" })
      .select("quantity")
      .single();
    expect(error).toBeNull();
    expect([status, data]).toEqual([200, { quantity: 2 }]);
  });

  test("rejects a non-unique target and duplicate rows", async () => {
    const sku = unique("sku");
    const target = await ada.client.from("stock").upsert({ sku, quantity: 2 }, { onConflict: "quantity" });
    expect([target.status, target.error?.code]).toEqual([400, "42P10"]);
    const twice = await ada.client.from("stock").upsert([{ sku }, { sku }], { onConflict: "sku" });
    expect([twice.status, twice.error?.code]).toEqual([500, "21000"]);
  });
});
