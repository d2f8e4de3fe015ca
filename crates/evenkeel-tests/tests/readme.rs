//! The README's session is what happens: its statements are run by stock psql, and what psql
//! prints is compared with what is written there.

use evenkeel_tests::server::TestServer;

const README: &str = include_str!("../../../README.md");

/// The lines of the session, without the command that starts psql.
fn session() -> Vec<&'static str> {
    let blocks = README.split("```");
    let block = blocks.filter_map(|block| block.strip_prefix("console\n"));
    let psql = |block: &&str| block.starts_with("$ psql ");
    let block = block.into_iter().find(psql).expect("a session with psql");
    block.lines().skip(1).collect()
}

#[test]
fn the_session_in_the_readme_is_what_psql_shows() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let (mut input, mut expected, mut in_block) = (String::new(), String::new(), false);
    for line in session() {
        let Some((prompt, statement)) = line.split_once("# ") else {
            expected.push_str(line);
            expected.push('\n');
            continue;
        };
        assert_eq!(prompt, if in_block { "postgres=*" } else { "postgres=" });
        in_block = (in_block || statement == "BEGIN;") && statement != "COMMIT;";
        input.push_str(statement);
        input.push('\n');
    }
    assert!(input.lines().count() > 3, "{input}");
    let file = dir.path().join("session.sql");
    std::fs::write(&file, input).unwrap();
    let shown = server.psql_with(&["-X", "-f", file.to_str().unwrap()]).ok();
    // Blanks that psql puts at the ends of lines are not in the README.
    let shown: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
    assert_eq!(shown.join("\n"), expected.trim_end());
}
