import datetime
import threading
from decimal import Decimal
from io import StringIO

from django.contrib.auth import get_user_model
from django.contrib.postgres.aggregates import ArrayAgg, StringAgg
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import (
    Avg,
    Case,
    Count,
    Exists,
    F,
    Max,
    OuterRef,
    ProtectedError,
    Q,
    Subquery,
    Sum,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, Rank, TruncMonth
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from .models import Comment, Issue, Label, Membership, Project

User = get_user_model()


def next_issue(project, author, title, **given):
    """Adds an issue with the project's next number; projects are numbered one after the other."""
    with transaction.atomic():
        Project.objects.select_for_update().get(pk=project.pk)
        last = project.issues.aggregate(last=Coalesce(Max("number"), 0))["last"]
        return project.issues.create(number=last + 1, author=author, title=title, **given)


class IssueTests(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.ada = User.objects.create_user("ada", password="a")
        cls.bob = User.objects.create_user("bob", password="b")
        cls.project = Project.objects.create(key="core", name="Core engine")
        for user, role in ((cls.ada, Membership.Role.OWNER), (cls.bob, Membership.Role.WRITER)):
            Membership.objects.create(project=cls.project, user=user, role=role)
        cls.labels = [Label.objects.create(name=name) for name in ("bug", "docs", "speed")]
        for n in range(6):
            issue = next_issue(
                cls.project,
                (cls.ada, cls.bob)[n % 2],
                f"Issue {n}",
                estimate=Decimal(n) / 4,
                fields={"severity": n % 3, "where": {"file": f"f{n}.rs"}},
                links=[f"https://example.org/{n}"] * (n % 2),
                due=datetime.date(2024, 1, 1) + datetime.timedelta(days=20 * n),
                spent=datetime.timedelta(hours=n),
            )
            issue.labels.set(cls.labels[: n % 4])

    def test_a_project_is_read_with_what_belongs_to_it(self):
        project = Project.objects.get(key="core")
        self.assertEqual(project.shout, "CORE ENGINE")
        self.assertEqual([user.username for user in project.members.order_by("id")], ["ada", "bob"])
        issues = project.issues.select_related("author").prefetch_related("labels").order_by("number")
        with self.assertNumQueries(2):
            labels = [[label.name for label in issue.labels.all()] for issue in issues]
        self.assertEqual([len(names) for names in labels], [0, 1, 2, 3, 0, 1])
        self.assertEqual([issue.number for issue in issues], [1, 2, 3, 4, 5, 6])
        self.assertIsNotNone(issues[0].created)

    def test_constraints_hold(self):
        def refused(name, work):
            with self.assertRaises(IntegrityError) as error, transaction.atomic():
                work()
            self.assertEqual(error.exception.__cause__.diag.constraint_name, name)

        refused("project_key_any_case", lambda: Project.objects.create(key="CORE", name="x"))
        refused(
            "member_once", lambda: Membership.objects.create(project=self.project, user=self.ada)
        )
        refused(
            "project_has_one_owner", lambda: Membership.objects.filter(user=self.bob).update(role=3)
        )
        refused("estimate_not_negative", lambda: Issue.objects.update(estimate=-1))
        refused("issue_number", lambda: Issue.objects.filter(number=2).update(number=3))
        refused("not_its_own_parent", lambda: Issue.objects.update(parent=F("id")))
        with self.assertRaises(ProtectedError):
            self.ada.delete()

    def test_lookups(self):
        def numbers(*given, **wanted):
            found = Issue.objects.filter(*given, **wanted).order_by("number")
            return list(found.values_list("number", flat=True))

        self.assertEqual(numbers(fields__severity=1), [2, 5])
        self.assertEqual(numbers(fields__where__file="f3.rs"), [4])
        self.assertEqual(numbers(fields__contains={"severity": 2}), [3, 6])
        self.assertEqual(numbers(fields__has_key="none"), [])
        self.assertEqual(numbers(links__contains=["https://example.org/3"]), [4])
        self.assertEqual(numbers(links__len=1), [2, 4, 6])
        self.assertEqual(numbers(links__0__endswith="/5"), [6])
        self.assertEqual(numbers(title__icontains="ISSUE 4"), [5])
        self.assertEqual(numbers(title__iregex=r"^issue [12]$"), [2, 3])
        self.assertEqual(numbers(due__month=2), [3])
        self.assertEqual(numbers(due__range=("2024-01-10", "2024-02-15")), [2, 3])
        self.assertEqual(numbers(~Q(labels__name="bug")), [1, 5])
        self.assertEqual(numbers(spent__gte=datetime.timedelta(hours=4)), [5, 6])
        self.assertEqual(numbers(estimate__in=[Decimal("0.25"), Decimal("0.75")]), [2, 4])
        self.assertEqual(numbers(author__username="ada", state="open"), [1, 3, 5])

    def test_reports(self):
        by_author = (
            Issue.objects.values("author__username")
            .annotate(
                count=Count("id"),
                hours=Sum("spent"),
                mean=Avg("estimate"),
                titles=StringAgg("title", ", ", ordering="number"),
                months=ArrayAgg(TruncMonth("due"), distinct=True, ordering=TruncMonth("due")),
            )
            .order_by("author__username")
        )
        ada, bob = by_author
        self.assertEqual((ada["count"], bob["hours"]), (3, datetime.timedelta(hours=9)))
        self.assertEqual((ada["mean"], ada["titles"]), (Decimal("0.5"), "Issue 0, Issue 2, Issue 4"))
        self.assertEqual([month.month for month in ada["months"]], [1, 2, 3])
        newest = Issue.objects.filter(author=OuterRef("pk")).order_by("-number")
        users = User.objects.annotate(
            newest=Subquery(newest.values("title")[:1]),
            has_bugs=Exists(newest.filter(labels__name="bug")),
        )
        self.assertEqual(
            list(users.order_by("id").values_list("newest", "has_bugs")),
            [("Issue 4", True), ("Issue 5", True)],
        )
        ranked = Issue.objects.annotate(
            place=Window(Rank(), partition_by="author", order_by=F("estimate").desc()),
            size=Case(When(estimate__lt=1, then=Value("small")), default=Value("large")),
        ).filter(place=1)
        self.assertEqual(
            [(issue.number, issue.size) for issue in ranked.order_by("number")],
            [(5, "large"), (6, "large")],
        )
        labelled = Label.objects.annotate(
            open=Count("issues", filter=Q(issues__state="open"), distinct=True)
        )
        self.assertEqual(dict(labelled.values_list("name", "open")), {"bug": 4, "docs": 2, "speed": 1})
        first = Issue.objects.order_by("author", "-number").distinct("author")
        self.assertEqual([issue.number for issue in first], [5, 6])
        union = Issue.objects.filter(number__lt=3).union(Issue.objects.filter(number__gt=5))
        self.assertEqual(sorted(issue.number for issue in union), [1, 2, 6])

    def test_changes(self):
        Issue.objects.filter(number__in=[1, 2]).update(state="closed", estimate=F("estimate") + 1)
        self.assertEqual(Issue.objects.filter(state="closed", estimate__gte=1).count(), 2)
        Label.objects.bulk_create(
            [Label(name="bug", color="#ff0000"), Label(name="new", color="#00ff00")],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["color"],
        )
        self.assertEqual(Label.objects.get(name="bug").color, "#ff0000")
        self.assertEqual(Label.objects.count(), 4)
        Label.objects.bulk_create([Label(name="bug")], ignore_conflicts=True)
        label, made = Label.objects.get_or_create(name="docs")
        self.assertFalse(made)
        label, made = Label.objects.update_or_create(name="docs", defaults={"color": "#0000ff"})
        self.assertEqual((made, label.color), (False, "#0000ff"))
        issues = list(Issue.objects.order_by("number"))
        for issue in issues:
            issue.title = issue.title.upper()
        Issue.objects.bulk_update(issues, ["title"])
        self.assertTrue(Issue.objects.filter(title="ISSUE 5").exists())
        parent = issues[0]
        Issue.objects.filter(number__gt=4).update(parent=parent)
        self.assertEqual(parent.delete()[1]["issues.Issue"], 3)

    def test_binary_and_time(self):
        issue = Issue.objects.get(number=1)
        content = bytes(range(256)) * 64
        before = timezone.now()
        comment = Comment.objects.create(
            issue=issue, author=self.bob, text="Größe: 10 µm", attachment=content
        )
        comment.refresh_from_db()
        self.assertEqual(bytes(comment.attachment), content)
        self.assertLessEqual(before, comment.at)
        self.assertEqual(Comment.objects.filter(at__date=timezone.localdate()).count(), 1)

    def test_a_broken_block_leaves_the_rest(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            next_issue(self.project, self.ada, "lost")
            1 / 0
        kept = next_issue(self.project, self.ada, "kept")
        self.assertEqual(kept.number, 7)

    def test_an_iterator_reads_by_a_cursor(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_cursors")
        found = [issue.number for issue in Issue.objects.order_by("number").iterator(chunk_size=2)]
        self.assertEqual(found, [1, 2, 3, 4, 5, 6])


class ConcurrencyTests(TransactionTestCase):
    def test_numbers_have_no_gap_and_no_twin(self):
        author = User.objects.create_user("ada")
        project = Project.objects.create(key="core", name="Core")

        def add():
            for _ in range(10):
                next_issue(project, author, "one of many")
            connection.close()

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        numbers = project.issues.order_by("number").values_list("number", flat=True)
        self.assertEqual(list(numbers), list(range(1, 41)))

    def test_workers_take_different_issues(self):
        author = User.objects.create_user("ada")
        project = Project.objects.create(key="core", name="Core")
        for n in range(2):
            next_issue(project, author, f"Issue {n}")
        taken = []

        def take():
            with transaction.atomic():
                waiting = project.issues.select_for_update(skip_locked=True).filter(state="open")
                issue = waiting.order_by("number").first()
                taken.append(issue.number)
                if len(taken) < 2:
                    other = threading.Thread(target=take)
                    other.start()
                    other.join()
                issue.state = Issue.State.ACTIVE
                issue.save(update_fields=["state"])
            if threading.current_thread() is not threading.main_thread():
                connection.close()

        take()
        self.assertEqual(taken, [1, 2])
        self.assertEqual(project.issues.filter(state="active").count(), 2)

    def test_work_after_the_commit(self):
        done = []
        with transaction.atomic():
            User.objects.create_user("ada")
            transaction.on_commit(lambda: done.append(User.objects.count()))
            self.assertEqual(done, [])
        self.assertEqual(done, [1])


class SchemaTests(TestCase):
    def test_the_schema_is_what_the_framework_sees(self):
        with connection.cursor() as cursor:
            constraints = connection.introspection.get_constraints(cursor, Issue._meta.db_table)
            sequences = connection.introspection.get_sequences(cursor, Issue._meta.db_table)
        self.assertEqual(constraints["issue_recent"]["orders"], ["ASC", "DESC"])
        self.assertTrue(constraints["issue_number"]["unique"])
        self.assertTrue(constraints["estimate_not_negative"]["check"])
        self.assertEqual(sequences[0]["column"], "id")
        models = StringIO()
        call_command("inspectdb", Issue._meta.db_table, stdout=models)
        for line in (
            "title = models.CharField(max_length=200)",
            "fields = models.JSONField()",
            "spent = models.DurationField(blank=True, null=True)",
            "project = models.ForeignKey(IssuesProject, models.DO_NOTHING)",
        ):
            self.assertIn(line, models.getvalue().replace("'IssuesProject'", "IssuesProject"))
