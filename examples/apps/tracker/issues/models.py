import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now, Upper


class Project(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    key = models.SlugField(max_length=8)
    name = models.CharField(max_length=100)
    shout = models.GeneratedField(
        expression=Upper("name"), output_field=models.CharField(max_length=100), db_persist=True
    )
    preferences = models.JSONField(default=dict)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Membership", related_name="projects"
    )

    class Meta:
        ordering = ["key"]
        constraints = [models.UniqueConstraint(Lower("key"), name="project_key_any_case")]


class Membership(models.Model):
    class Role(models.IntegerChoices):
        READER = 1
        WRITER = 2
        OWNER = 3

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    role = models.PositiveSmallIntegerField(choices=Role, default=Role.READER)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="member_once"),
            models.UniqueConstraint(
                fields=["project"], condition=Q(role=3), name="project_has_one_owner"
            ),
        ]


class Label(models.Model):
    name = models.CharField(max_length=30, unique=True)
    color = models.CharField(max_length=7, default="#808080")


class Issue(models.Model):
    class State(models.TextChoices):
        OPEN = "open"
        ACTIVE = "active"
        CLOSED = "closed"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="issues")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    body = models.TextField(blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.OPEN, db_index=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="assigned"
    )
    labels = models.ManyToManyField(Label, related_name="issues")
    links = ArrayField(models.CharField(max_length=60), default=list)
    fields = models.JSONField(default=dict)
    estimate = models.DecimalField(max_digits=6, decimal_places=2, null=True)
    spent = models.DurationField(null=True)
    created = models.DateTimeField(db_default=Now())
    due = models.DateField(null=True)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="parts")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="issue_number"),
            models.CheckConstraint(
                condition=Q(estimate__isnull=True) | Q(estimate__gte=0), name="estimate_not_negative"
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="not_its_own_parent"),
        ]
        indexes = [
            models.Index(fields=["project", "-created"], name="issue_recent"),
            models.Index(fields=["due"], condition=~Q(state="closed"), name="issue_due"),
        ]


class Comment(models.Model):
    issue = models.ForeignKey(Issue, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    text = models.TextField()
    at = models.DateTimeField(auto_now_add=True)
    attachment = models.BinaryField(null=True)
