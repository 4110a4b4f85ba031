import { useEffect, useState } from "react";

/** The value once it has stood still: for a search that the server does. */
export function useDebounced<Value>(value: Value, delayMs = 250) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delayMs);
    return () => clearTimeout(timer);
  }, [value, delayMs]);
  return settled;
}
