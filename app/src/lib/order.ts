interface Item {
  id: string;
}

export type Side = "before" | "after";

/** Which item follows `movedId` once it is dropped before or after `targetId`; null when it is then the last. */
export function followerOf(items: readonly Item[], movedId: string, targetId: string, side: Side): string | null {
  const others = items.filter(({ id }) => id !== movedId);
  const index = others.findIndex(({ id }) => id === targetId);
  return others[side === "before" ? index : index + 1]?.id ?? null;
}

/** The items with `movedId` before `beforeId`, or last. */
export function reordered<Moved extends Item>(items: readonly Moved[], movedId: string, beforeId: string | null) {
  const moved = items.find(({ id }) => id === movedId);
  if (!moved) return [...items];
  const others = items.filter((item) => item !== moved);
  const index = beforeId === null ? -1 : others.findIndex(({ id }) => id === beforeId);
  return others.toSpliced(index === -1 ? others.length : index, 0, moved);
}
