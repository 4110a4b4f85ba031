import { type DefaultValues, type FieldValues, type Resolver, useForm } from "react-hook-form";
import { useRowBase } from "@/hooks/use-row-base";

interface Options<Row, Input extends FieldValues, Values> {
  /** The newest that is known; null while there is no row. */
  row: Row;
  resolver: Resolver<Input, unknown, Values>;
  /** What the fields say of a row. */
  inputOf: (row: Row) => Input;
  /**
   * Replaces that version of the row, and no other. `false` when there is a newer one; rejects when it failed, having
   * told the person. What was typed stays in both cases.
   */
  save: (change: { base: Row; values: Values }) => Promise<unknown>;
  /** Something beside the fields was changed, a picture say. */
  alsoDirty?: boolean;
}

/**
 * A form over one row that others may save as well. It knows the version that it started from, so that saving says which
 * one it replaces. A newer one is taken over while nothing was typed; after that the person decides (`stale-alert`, or
 * `conflict-note`, which shows both).
 */
export function useRowForm<Row extends { updated_at: string } | null, Input extends FieldValues, Values>({
  row,
  resolver,
  inputOf,
  save,
  alsoDirty = false,
}: Options<Row, Input, Values>) {
  const form = useForm<Input, unknown, Values>({ resolver, defaultValues: inputOf(row) as DefaultValues<Input> });
  const { isDirty: fieldsDirty, isSubmitting } = form.formState;
  const isDirty = fieldsDirty || alsoDirty;
  const { base, isStale, loadTheirs, keepMine } = useRowBase({
    fresh: row,
    read: inputOf,
    isDirty,
    isBusy: isSubmitting,
    load: (theirs) => form.reset(inputOf(theirs)),
  });
  const submit = form.handleSubmit(async (values) => {
    const typed = form.getValues();
    const saved = await save({ base, values }).catch(() => false);
    if (saved !== false) form.reset(typed);
  });

  return {
    ...form,
    /** The version that saving replaces. */
    base,
    submit,
    /** For `DialogForm`. */
    formProps: { onSubmit: (event: React.FormEvent) => void submit(event), busy: isSubmitting, dirty: isDirty },
    /** Another version has come while this one was being edited: what the person can do. */
    conflict: isStale ? { theirs: inputOf(row), onLoadTheirs: loadTheirs, onKeepMine: keepMine } : null,
  };
}
