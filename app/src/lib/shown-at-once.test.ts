import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { fetchConfirmed, showAtOnce, withShown } from "./shown-at-once";

test("change stays shown in lists fetched before the server has confirmed it, and no longer", async () => {
  const queryClient = new QueryClient();
  const listKey = ["letters"];
  let stored = ["a", "b"];
  const fetchList = () =>
    queryClient.fetchQuery({ queryKey: listKey, queryFn: async ({ queryKey }) => withShown(queryKey, [...stored]) });
  await fetchList();

  const confirmations: (() => void)[] = [];
  const add = (letter: string) =>
    queryClient
      .getMutationCache()
      .build(queryClient, {
        mutationKey: [...listKey, "add"],
        mutationFn: () => new Promise<void>((resolve) => confirmations.push(resolve)),
        onMutate: () => showAtOnce<string>(queryClient, listKey, (letters) => [...letters, letter]),
        onSettled: () => fetchConfirmed(queryClient, listKey),
      })
      .execute(undefined);
  const added = [add("c"), add("d")];
  await expect.poll(() => confirmations.length).toBe(2);
  expect(queryClient.getQueryData(listKey)).toEqual(["a", "b", "c", "d"]);
  stored = ["b"];
  expect(await fetchList()).toEqual(["b", "c", "d"]);

  confirmations[0]?.();
  await added[0];
  expect(await fetchList()).toEqual(["b", "c", "d"]);
  confirmations[1]?.();
  await added[1];
  expect(await fetchList()).toEqual(["b"]);
});
