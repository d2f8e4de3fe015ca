from django.db import migrations, models
from django.db.models import Window
from django.db.models.functions import RowNumber


def number_issues(apps, schema_editor):
    """Gives the issues that there are their numbers in their projects, oldest first."""
    issue = apps.get_model("issues", "Issue")
    row = Window(RowNumber(), partition_by="project", order_by=["created", "id"])
    numbered = list(issue.objects.annotate(row=row))
    for one in numbered:
        one.number = one.row
    issue.objects.bulk_update(numbered, ["number"], batch_size=100)


class Migration(migrations.Migration):
    dependencies = [("issues", "0001_initial")]
    operations = [
        migrations.AddField("issue", "number", models.PositiveIntegerField(null=True)),
        migrations.RunPython(number_issues, migrations.RunPython.noop),
        migrations.AlterField("issue", "number", models.PositiveIntegerField()),
        migrations.AddConstraint(
            "issue", models.UniqueConstraint(fields=("project", "number"), name="issue_number")
        ),
        migrations.RenameField("label", "name", "title"),
        migrations.AlterField("label", "title", models.CharField(max_length=30, unique=True)),
        migrations.RenameField("label", "title", "name"),
        migrations.AddField(
            "label", "color", models.CharField(default="#808080", max_length=7)
        ),
        migrations.AddIndex(
            "issue", models.Index(fields=["project", "-created"], name="issue_recent")
        ),
    ]
