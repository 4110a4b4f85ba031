import { useSearchParams } from "react-router";

/** The chosen tab of a page, kept in the address: it survives a reload and can be linked to. The first is the default. */
export function useTab<Tab extends string>(tabs: readonly [Tab, ...Tab[]]) {
  const [params, setParams] = useSearchParams();
  const asked = params.get("tab");
  const tab = tabs.find((name) => name === asked) ?? tabs[0];
  const setTab = (next: string) =>
    setParams(next === tabs[0] ? {} : { tab: next }, { replace: true, preventScrollReset: true });
  return [tab, setTab] as const;
}
