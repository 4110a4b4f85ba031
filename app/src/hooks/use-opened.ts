import { useState } from "react";

/** Which tabs have been opened so far: the code of the others is not fetched. */
export function useOpened<Name extends string>(open: Name | null): ReadonlySet<Name> {
  const [opened, setOpened] = useState<ReadonlySet<Name>>(new Set());
  if (open && !opened.has(open)) setOpened(new Set([...opened, open]));
  return opened;
}
