export interface Picture {
  light: string;
  dark: string;
  /** In CSS pixels. */
  width: number;
  height: number;
  alt: string;
}

/** Of the demo plan, taken by `e2e/landing-screenshots.spec.ts`. Only the picture of the current theme is fetched. */
export function Screenshot({ light, dark, alt, ...size }: Picture) {
  return (
    <div className="overflow-hidden rounded-xl border shadow-raised">
      <img src={light} alt={alt} {...size} loading="lazy" className="h-auto w-full dark:hidden" />
      <img src={dark} alt={alt} {...size} loading="lazy" className="hidden h-auto w-full dark:block" />
    </div>
  );
}
