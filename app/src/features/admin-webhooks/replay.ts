import type { Json } from "@/lib/database.types";

export interface ReplayMetadata {
  customer_email: string | null;
  customer_id: string | null;
  subscription_id: string | null;
  price_id: string | null;
}

/** What a payment event says about whom and what it is for; ids may be texts or objects with an id. */
export function metadataOf(payload: Json): ReplayMetadata {
  const object = at(at(payload, "data"), "object");
  const kind = at(object, "object");
  const isSubscription = kind === "subscription";
  const item = first(at(at(object, "items"), "data")) ?? first(at(object, "items"));
  const line = first(at(at(object, "line_items"), "data")) ?? first(at(object, "line_items"));
  return {
    customer_email: textOf(at(object, "customer_email")) ?? textOf(at(at(object, "customer_details"), "email")),
    customer_id: kind === "customer" ? textOf(at(object, "id")) : idOf(at(object, "customer")),
    subscription_id: isSubscription
      ? textOf(at(object, "id"))
      : (idOf(at(object, "subscription")) ??
        idOf(at(at(at(object, "parent"), "subscription_details"), "subscription"))),
    price_id: idOf(at(item, "price")) ?? idOf(at(line, "price")),
  };
}

function at(json: Json | undefined, key: string): Json | undefined {
  return json && typeof json === "object" && !Array.isArray(json) ? json[key] : undefined;
}

function first(json: Json | undefined): Json | undefined {
  return Array.isArray(json) ? json[0] : undefined;
}

function textOf(json: Json | undefined): string | null {
  return typeof json === "string" && json !== "" ? json : null;
}

function idOf(json: Json | undefined): string | null {
  return textOf(json) ?? textOf(at(json, "id"));
}
