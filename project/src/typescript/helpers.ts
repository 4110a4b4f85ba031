
type Schemas = Omit<Database, "__InternalSupabase">

type DefaultSchema = Schemas["public"]

type SchemaOption = { schema: keyof Schemas }

type SchemaOf<Options> = Options extends SchemaOption
  ? Schemas[Options["schema"]]
  : DefaultSchema

type Relations<Schema extends { Tables: unknown; Views: unknown }> =
  Schema["Tables"] & Schema["Views"]

type Choice<All, Options, Name> = Options extends SchemaOption
  ? Name extends keyof All
    ? All[Name]
    : never
  : Options extends keyof All
    ? All[Options]
    : never

type Part<Relation, Key extends string> = Relation extends {
  [_ in Key]: infer Found
}
  ? Found
  : never

/** A row as it is read: `Tables<"plans">`, `Tables<{ schema: "other" }, "plans">`. */
export type Tables<
  Options extends keyof Relations<DefaultSchema> | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof Relations<SchemaOf<Options>>
    : never = never,
> = Part<Choice<Relations<SchemaOf<Options>>, Options, Name>, "Row">

/** A row as it is inserted. */
export type TablesInsert<
  Options extends keyof DefaultSchema["Tables"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["Tables"]
    : never = never,
> = Part<Choice<SchemaOf<Options>["Tables"], Options, Name>, "Insert">

/** What may be changed of a row. */
export type TablesUpdate<
  Options extends keyof DefaultSchema["Tables"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["Tables"]
    : never = never,
> = Part<Choice<SchemaOf<Options>["Tables"], Options, Name>, "Update">

/** The labels of an enum. */
export type Enums<
  Options extends keyof DefaultSchema["Enums"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["Enums"]
    : never = never,
> = Choice<SchemaOf<Options>["Enums"], Options, Name>

/** A composite type. */
export type CompositeTypes<
  Options extends keyof DefaultSchema["CompositeTypes"] | SchemaOption,
  Name extends Options extends SchemaOption
    ? keyof SchemaOf<Options>["CompositeTypes"]
    : never = never,
> = Choice<SchemaOf<Options>["CompositeTypes"], Options, Name>

