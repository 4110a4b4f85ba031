import { useSyncExternalStore } from "react";
import { chooseTheme, currentTheme, watchTheme } from "@/lib/theme";

export function useTheme() {
  const theme = useSyncExternalStore(watchTheme, currentTheme);
  return [theme, chooseTheme] as const;
}
