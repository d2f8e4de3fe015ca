//! System columns where several sessions change a row.

use crate::harness::{one, open, session};

/// The token by which applications notice that another has changed a row since they read it.
#[tokio::test]
async fn an_update_by_xmin_finds_no_row_that_another_has_changed() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    one(
        &mut a,
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)",
    )
    .await;
    for by in ["xmin", "ctid"] {
        let token = one(&mut b, &format!("SELECT {by} FROM t WHERE id = 1")).await;
        let ty = if by == "xmin" { "xid" } else { "tid" };
        let update =
            format!("UPDATE t SET n = n + 10 WHERE id = 1 AND {by} = '{token}'::{ty} RETURNING n");
        one(&mut a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await;
        let (found, ()) = tokio::join!(one(&mut b, &update), async {
            // The update waits by now, or comes later and finds no row at once.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            one(&mut a, "COMMIT").await;
        });
        assert_eq!(found, "", "{by}");
        let token = one(&mut b, &format!("SELECT {by} FROM t WHERE id = 1")).await;
        let update = format!(
            "UPDATE t SET n = n + 10 WHERE id = 1 AND {by} = '{token}'::{ty} \
             RETURNING {by} <> '{token}'::{ty}"
        );
        assert_eq!(one(&mut b, &update).await, "t", "{by}");
    }
    assert_eq!(one(&mut a, "SELECT n FROM t").await, "22");
}

/// A transaction that has a number and has written nothing ends like any other.
#[tokio::test]
async fn a_number_without_a_write_is_a_transactions_all_the_same() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    for (end, status) in [("COMMIT", "committed"), ("ROLLBACK", "aborted")] {
        one(&mut a, "BEGIN").await;
        let number = one(&mut a, "SELECT txid_current()").await;
        let asked = format!("SELECT txid_status({number})");
        assert_eq!(one(&mut b, &asked).await, "in progress");
        let locks = format!("SELECT count(*) FROM pg_locks WHERE transactionid = '{number}'");
        assert_eq!(one(&mut b, &locks).await, "1");
        one(&mut a, end).await;
        assert_eq!(one(&mut b, &asked).await, status);
        assert_eq!(one(&mut b, &locks).await, "0");
    }
    let read_only = "BEGIN READ ONLY; SELECT pg_current_xact_id() IS NOT NULL";
    assert_eq!(one(&mut a, read_only).await, "t");
    one(&mut a, "SAVEPOINT s; ROLLBACK TO s; COMMIT").await;
}
