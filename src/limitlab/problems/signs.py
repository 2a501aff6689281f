"""Which overlaps are known up to their sign only."""

from limitlab.problems.problem import Problem

__all__ = ["unsigned"]


def unsigned(problem: Problem) -> tuple[str, ...]:
    """Variables that are as likely as their negative: turning a direction around changes nothing that is seen.

    A label that has lost the sign of the teacher's output cannot tell a teacher from its mirror image, and a unit with
    an even activation is the same when it is turned around. Which of the two a run is near, its start decides by
    chance, unless the start knows the teacher. The mean over runs of such a variable is zero and says nothing.
    """
    teacher, student, start = problem.teacher, problem.student, problem.start
    if teacher is None or (start is not None and not start.blind):
        return ()
    turned = teacher.parity == 1 or (teacher.parity == -1 and problem.channel.even)
    by_teacher = ("M", "m") if turned else ()
    by_student = () if student is None or start is None else student.unsigned(start)
    return tuple(dict.fromkeys((*by_teacher, *by_student)))
