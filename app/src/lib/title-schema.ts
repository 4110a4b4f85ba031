import * as z from "zod/mini";
import { titleFaultOf } from "./titles";

/** A form's field for a title. Rules without a form have `titleFaultOf`, which brings no schema library. */
export const titleSchema = (name?: string) =>
  z.string().check(
    z.trim(),
    z.superRefine((title, context) => {
      const fault = titleFaultOf(title, name);
      if (fault) context.addIssue(fault);
    }),
  );
