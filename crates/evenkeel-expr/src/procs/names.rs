//! The names of functions' arguments: `proargnames`.

/// Functions by oid with the names of their arguments.
type Named = (&'static [u32], &'static [&'static str]);

static NAMED: &[Named] = &[
    (
        &[3197, 3270, 6280, 6281, 6282, 6288, 6289, 6290],
        &["key", "value"],
    ),
    (&[3214, 3478, 3947, 3948], &["from_json", "field_name"]),
    (&[3215, 3216, 3949, 3950], &["from_json", "element_index"]),
    (
        &[3217, 3343, 3940, 3951, 3953],
        &["from_json", "path_elems"],
    ),
    (&[3261, 3262], &["target", "strip_in_arrays"]),
    (
        &[3305],
        &["jsonb_in", "path", "replacement", "create_if_missing"],
    ),
    (
        &[3579],
        &["jsonb_in", "path", "replacement", "insert_after"],
    ),
    (
        &[5054],
        &[
            "jsonb_in",
            "path",
            "replacement",
            "create_if_missing",
            "null_value_treatment",
        ],
    ),
    (
        &[3208, 3219, 3465, 3932, 3955, 3958, 3959, 3969],
        &["from_json"],
    ),
    (&[1268], &["str", "strict"]),
    (&[2096], &["pid", "timeout"]),
    (&[2284], &["string", "pattern", "replacement"]),
    (&[2285], &["string", "pattern", "replacement", "flags"]),
    (&[2289], &["options_array"]),
    (&[2307, 3775], &["target"]),
    (
        &[2763, 2765, 2767, 3396, 6254, 6257, 6263, 6265],
        &["string", "pattern"],
    ),
    (
        &[2764, 2766, 2768, 3397, 6264],
        &["string", "pattern", "flags"],
    ),
    (&[3423], &["rootrelid"]),
    (&[3425], &["partitionid"]),
    (
        &[3461, 3462],
        &["year", "month", "mday", "hour", "min", "sec"],
    ),
    (
        &[3463],
        &["year", "month", "mday", "hour", "min", "sec", "timezone"],
    ),
    (
        &[3464],
        &["years", "months", "weeks", "days", "hours", "mins", "secs"],
    ),
    (&[3538, 3545], &["value", "delimiter"]),
    (&[3846], &["year", "month", "day"]),
    (&[3847], &["hour", "min", "sec"]),
    (&[6212], &["mean", "stddev"]),
    (
        &[6251],
        &["string", "pattern", "replacement", "start", "N", "flags"],
    ),
    (&[6252], &["string", "pattern", "replacement", "start", "N"]),
    (&[6253], &["string", "pattern", "replacement", "start"]),
    (&[6255, 6258, 6266], &["string", "pattern", "start"]),
    (&[6256], &["string", "pattern", "start", "flags"]),
    (&[6259, 6267], &["string", "pattern", "start", "N"]),
    (&[6260], &["string", "pattern", "start", "N", "endoption"]),
    (
        &[6261],
        &["string", "pattern", "start", "N", "endoption", "flags"],
    ),
    (
        &[6262],
        &[
            "string",
            "pattern",
            "start",
            "N",
            "endoption",
            "flags",
            "subexpr",
        ],
    ),
    (&[6268], &["string", "pattern", "start", "N", "flags"]),
    (
        &[6269],
        &["string", "pattern", "start", "N", "flags", "subexpr"],
    ),
    (&[6339, 6340], &["min", "max"]),
    (&[6389], &["array", "descending"]),
    (&[6390], &["array", "descending", "nulls_first"]),
    (&[6430], &["shift"]),
];

/// The names of a function's arguments, in their order; none of a function that has no names.
pub fn argument_names(oid: u32) -> &'static [&'static str] {
    let found = NAMED.iter().find(|(oids, _)| oids.contains(&oid));
    found.map_or(&[], |(_, names)| names)
}
