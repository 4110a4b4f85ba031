import { toDay } from "@/lib/dates";

/** From the first to the last day, both included, as `YYYY-MM-DD`. */
export interface Period {
  firstDay: string;
  lastDay: string;
}

export const presets = {
  "this-quarter": "This quarter",
  "last-quarter": "Last quarter",
  "this-year": "This year",
  "last-year": "Last year",
} as const;
export type Preset = keyof typeof presets;
export const presetNames = Object.keys(presets) as Preset[];

export const longestPeriodDays = 1096;

const monthsBack: Record<Preset, { unit: number; back: number }> = {
  "this-quarter": { unit: 3, back: 0 },
  "last-quarter": { unit: 3, back: 3 },
  "this-year": { unit: 12, back: 0 },
  "last-year": { unit: 12, back: 12 },
};

/** The period that a preset is on a day. */
export function periodOf(preset: Preset, now = new Date()): Period {
  const { unit, back } = monthsBack[preset];
  const first = Math.floor(now.getMonth() / unit) * unit - back;
  // Day 0 is the last one of the month before.
  return {
    firstDay: toDay(new Date(now.getFullYear(), first, 1)),
    lastDay: toDay(new Date(now.getFullYear(), first + unit, 0)),
  };
}

/** The preset that gives this period today; null for other dates. */
export function presetOf({ firstDay, lastDay }: Period, now = new Date()): Preset | null {
  return (
    presetNames.find((preset) => {
      const period = periodOf(preset, now);
      return period.firstDay === firstDay && period.lastDay === lastDay;
    }) ?? null
  );
}
