import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('issues', '0002_numbers'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterUniqueTogether(
            name='membership',
            unique_together=set(),
        ),
        migrations.AddField(
            model_name='issue',
            name='assignee',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='assigned', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='issue',
            name='estimate',
            field=models.DecimalField(decimal_places=2, max_digits=6, null=True),
        ),
        migrations.AddField(
            model_name='issue',
            name='fields',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='issue',
            name='links',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), default=list, size=None),
        ),
        migrations.AddField(
            model_name='issue',
            name='parent',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='issues.issue'),
        ),
        migrations.AddField(
            model_name='issue',
            name='spent',
            field=models.DurationField(null=True),
        ),
        migrations.AddField(
            model_name='membership',
            name='role',
            field=models.PositiveSmallIntegerField(choices=[(1, 'Reader'), (2, 'Writer'), (3, 'Owner')], default=1),
        ),
        migrations.AddField(
            model_name='project',
            name='preferences',
            field=models.JSONField(default=dict),
        ),
        migrations.AlterField(
            model_name='comment',
            name='id',
            field=models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='issue',
            name='id',
            field=models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='issue',
            name='state',
            field=models.CharField(choices=[('open', 'Open'), ('active', 'Active'), ('closed', 'Closed')], db_index=True, default='open', max_length=10),
        ),
        migrations.AlterField(
            model_name='label',
            name='id',
            field=models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='membership',
            name='id',
            field=models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID'),
        ),
        migrations.AddIndex(
            model_name='issue',
            index=models.Index(condition=models.Q(('state', 'closed'), _negated=True), fields=['due'], name='issue_due'),
        ),
        migrations.AddConstraint(
            model_name='issue',
            constraint=models.CheckConstraint(condition=models.Q(('estimate__isnull', True), ('estimate__gte', 0), _connector='OR'), name='estimate_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='issue',
            constraint=models.CheckConstraint(condition=models.Q(('parent', models.F('id')), _negated=True), name='not_its_own_parent'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('project', 'user'), name='member_once'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(condition=models.Q(('role', 3)), fields=('project',), name='project_has_one_owner'),
        ),
        migrations.AddConstraint(
            model_name='project',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('key'), name='project_key_any_case'),
        ),
        migrations.AddField(
            model_name='project',
            name='shout',
            field=models.GeneratedField(db_persist=True, expression=django.db.models.functions.text.Upper('name'), output_field=models.CharField(max_length=100)),
        ),
    ]
