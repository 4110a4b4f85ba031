import { hashKey, type QueryClient, type QueryKey } from "@tanstack/react-query";

/** Changes by list, in the order in which they were made; each takes and returns the items of its list. */
const unconfirmed = new Map<string, ((items: never[]) => unknown[])[]>();

/** Changes a list on the screen before the server has changed it. */
export function showAtOnce<Item>(queryClient: QueryClient, listKey: QueryKey, change: (items: Item[]) => Item[]) {
  const name = hashKey(listKey);
  unconfirmed.set(name, [...(unconfirmed.get(name) ?? []), change]);
  queryClient.setQueryData<Item[]>(listKey, (items) => items && change(items));
}

/** The list as fetched, with what it does not know of yet: for its query. */
export function withShown<Item>(listKey: QueryKey, items: Item[]): Item[] {
  const changes = unconfirmed.get(hashKey(listKey)) ?? [];
  return changes.reduce((changed, change) => change(changed as never[]) as Item[], items);
}

/** To be called when one of the list's mutations has ended: the last of them fetches the list for all. */
export function fetchConfirmed(queryClient: QueryClient, listKey: QueryKey) {
  if (queryClient.isMutating({ mutationKey: listKey }) > 1) return;
  unconfirmed.delete(hashKey(listKey));
  return queryClient.invalidateQueries({ queryKey: listKey });
}
