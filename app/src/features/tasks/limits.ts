/** As the database has them. A file of its own: the plan's page does without the schemas of forms. */
export const taskLimits = { description: 100_000, measure: 10_000, names: 50, namesLength: 5000 };
