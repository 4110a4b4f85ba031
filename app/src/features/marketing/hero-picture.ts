import dark from "./pictures/plan.dark.webp";
import light from "./pictures/plan.light.webp";
import type { Picture } from "./screenshot";

export const heroPicture: Picture = {
  light,
  dark,
  width: 768,
  height: 604,
  alt: "A plan with its goals, dates and progress",
};
