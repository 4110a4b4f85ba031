import { useRef } from "react";

/** The items by `keyOf`. A group of the very same items stays the same array, so that what shows it need not be rendered again. */
export function useGroups<Item>(items: readonly Item[], keyOf: (item: Item) => string): ReadonlyMap<string, Item[]> {
  const last = useRef<{ items: readonly Item[]; groups: Map<string, Item[]> }>({ items: [], groups: new Map() });
  if (last.current.items !== items) {
    const before = last.current.groups;
    const groups = Map.groupBy(items, keyOf);
    for (const [key, group] of groups) {
      const known = before.get(key);
      if (known?.length === group.length && known.every((item, index) => item === group[index])) groups.set(key, known);
    }
    last.current = { items, groups };
  }
  return last.current.groups;
}
