import { expect, test } from "vitest";
import { metadataOf } from "./replay";

const nothing = { customer_email: null, customer_id: null, subscription_id: null, price_id: null };

test("reads customer, subscription and price of a checkout", () => {
  const object = {
    object: "checkout.session",
    customer: "cus_1",
    subscription: { id: "sub_1" },
    customer_details: { email: "ada@example.org" },
    line_items: { data: [{ price: { id: "price_1" } }] },
  };
  expect(metadataOf({ type: "checkout.session.completed", data: { object } })).toEqual({
    customer_email: "ada@example.org",
    customer_id: "cus_1",
    subscription_id: "sub_1",
    price_id: "price_1",
  });
});

test("reads the id of a subscription", () => {
  const object = {
    object: "subscription",
    id: "sub_2",
    customer: { id: "cus_2" },
    items: { data: [{ price: "price_2" }] },
  };
  expect(metadataOf({ data: { object } })).toEqual({
    ...nothing,
    customer_id: "cus_2",
    subscription_id: "sub_2",
    price_id: "price_2",
  });
});

test("reads the subscription of both invoice formats", () => {
  const parent = { subscription_details: { subscription: "sub_3" } };
  expect(metadataOf({ data: { object: { object: "invoice", parent } } }).subscription_id).toBe("sub_3");
  expect(metadataOf({ data: { object: { object: "invoice", subscription: "sub_4" } } }).subscription_id).toBe("sub_4");
});

test.each([null, "text", [], {}, { data: null }, { data: { object: 3 } }])("finds nothing in %j", (payload) => {
  expect(metadataOf(payload)).toEqual(nothing);
});
