"""Dynamical mean-field theory: closed values, nesting, independent code, and the square with simulations.

Default tests share one compiled shape: 1024 trajectories, at most 63 steps.
"""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import limitlab as ll
from cases import descent
from independent import linear_overlaps, linear_regression
from limitlab.macro.dmft import paths, rows, solve
from limitlab.macro.dmft.dmft import DMFT
from limitlab.macro.dmft.rows import Scheme

N, ETA = 1024, 0.01
DOWN = descent(ll.GradientDescent(ETA), 3.0, ll.InformedStart(0.5))


def mean_and_error(values):
    return values.mean("replica").values, values.std("replica", ddof=1).values / np.sqrt(values.sizes["replica"])


def assert_close(values, exact, sigmas=4.0):
    mean, error = mean_and_error(values)
    assert np.all(np.abs(mean - exact) <= sigmas * error + 1e-12), (mean, exact, error)


# --- closed values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("b", "m_1"), [pytest.param(1.0, 0.52259, marks=pytest.mark.more), (0.5, 0.52183)])
def test_the_first_step_has_its_closed_values(b, m_1):
    alpha, m0 = 3.0, 0.5
    q = 1 - m0**2
    problem = descent(ll.StochasticGD(ETA, b), alpha, ll.InformedStart(m0))
    seen = ll.predict(problem, DMFT(trajectories=N, batches=24), [0, ETA])
    first = seen.isel(time=0)
    assert_close(first.train_loss, q)
    assert_close(first.risk, q)
    assert_close(first.delta_nu, 2 * alpha)
    assert_close(first.M_C.isel(time_2=0), 12 * alpha * q / b)
    a = (1 - 4 * ETA * alpha * q + ETA**2 * (12 * alpha * q / b + 4 * alpha**2 * q)) ** -0.5
    assert_close(first.nu, (1 - a) / ETA)
    assert_close(seen.m[1], m_1, sigmas=4.5)
    kernel = alpha * (24 - 12 * m0**2) * (1.0 if b == 1 else b**2) / b**2
    mean, error = mean_and_error(seen.M_R.isel(time=1, time_2=0))
    assert abs(mean - kernel) < 4 * error + 0.25 * kernel  # up to 1 + O(eta)


@pytest.mark.parametrize("identity", [pytest.param(True, marks=pytest.mark.more), False])
def test_linear_regression_with_noisy_labels_has_its_closed_form(identity):
    alpha, eta, m0, variance, steps = 2.0, 0.05, 0.2, 0.5, np.array([0, 5, 20, 60])
    problem = descent(
        ll.GradientDescent(eta, spherical=False),
        alpha,
        ll.InformedStart(m0),
        ll.SquareLoss(),
        ll.GaussianNoise(variance),
    )
    seen = ll.predict(problem, DMFT(trajectories=N, batches=16, identity=identity), eta * steps)
    for values, exact in zip(
        (seen.m, seen.train_loss), linear_regression(steps, alpha, eta, m0, variance), strict=True
    ):
        assert_close(values, exact)


def test_the_step_vanishes_at_first_order():
    alpha, m0, time = 2.0, 0.2, 0.4
    exact = linear_regression([time * 1e6], alpha, 1e-6, m0, 0.0)[0][0]
    gaps, errors = [], []
    for eta in (0.1, 0.05, 0.025):
        problem = descent(
            ll.GradientDescent(eta, spherical=False), alpha, ll.InformedStart(m0), ll.SquareLoss(), ll.GaussianNoise()
        )
        seen = ll.predict(problem, DMFT(trajectories=N, batches=24, identity=False), [time])
        mean, error = mean_and_error(seen.m[0])
        gaps.append(float(mean) - exact)
        errors.append(float(error))
    (coarse, middle, fine), (e1, e2, e3) = gaps, errors
    assert abs(coarse) > 8 * e1
    order = np.log2((coarse - middle) / (middle - fine))
    spread = np.hypot(np.hypot(e1, e2) / abs(coarse - middle), np.hypot(e2, e3) / abs(middle - fine)) / np.log(2)
    assert abs(order - 1) < 3 * spread + 0.3
    assert abs(fine) < abs(coarse) / 2


# --- nesting -------------------------------------------------------------------------------------------------


def test_iteration_ends_at_the_causal_pass_and_the_sphere_is_kept():
    problem, times = descent(ll.PersistentSGD(ETA, 0.5, 0.5)), ETA * np.array([0, 5, 20, 40, 60])
    causal, iterated = (
        ll.predict(problem, DMFT(trajectories=N, batches=2, scheme=scheme, identity=False, tolerance=1e-10), times)
        for scheme in ("causal", "iterated")
    )
    for name in ("m", "C", "R", "train_loss", "M_C", "M_R"):
        np.testing.assert_allclose(iterated[name], causal[name], atol=1e-7, rtol=1e-7)
    for seen in (causal, iterated):
        np.testing.assert_allclose(seen.q, 1, atol=1e-13)
    assert all(3 < count < 60 for count in iterated.attrs["iterations"])
    one = ll.predict(problem, DMFT(trajectories=N, batches=2, scheme="iterated", iterations=2), times)
    assert set(one.status.values) == {"not_converged"}


def test_going_on_from_a_state_is_a_run_from_the_start(tmp_path):
    problem, limit = descent(ll.PersistentSGD(ETA, 0.5, 0.5)), DMFT(trajectories=N, batches=2)
    whole = ll.predict(problem, limit, [0.1, 0.33, 0.6])
    short, state = limit.run(problem, [0.1, 0.33])
    np.testing.assert_allclose(short.m, whole.m[:2], atol=1e-12)
    loaded = ll.analysis.DMFTState.load(state.save(tmp_path / "state.npz"))
    assert loaded.steps == 33
    longer, state = limit.resume(problem, loaded, [0.1, 0.33, 0.6])
    for name in ("m", "C", "R", "train_loss", "residual"):
        np.testing.assert_allclose(longer[name], whole[name], atol=1e-9)
    assert state.steps == 60
    with pytest.raises(ll.errors.InputError, match="same settings"):
        DMFT(trajectories=N, batches=2, seed=1).resume(problem, state, [0.6])
    with pytest.raises(ll.errors.InputError, match="same problem"):
        limit.resume(descent(ll.GradientDescent(ETA)), state, [0.6])
    (tmp_path / "other.npz").write_bytes(b"not a state")
    with pytest.raises(ll.errors.ResultFileError, match="not a state of DMFT"):
        ll.analysis.DMFTState.load(tmp_path / "other.npz")


def test_the_identity_leaves_the_mean_as_it_is():
    problem, times = descent(ll.PersistentSGD(ETA, 0.5, 0.5)), ETA * np.array([0, 10, 40, 60])
    one = ll.predict(problem, DMFT(trajectories=N, batches=12), times)
    plain = ll.predict(problem, DMFT(trajectories=N, batches=12, identity=False, seed=1), times)
    assert ll.compare(one, plain, variables=("m", "train_loss", "C")).agrees
    assert np.max(np.abs(one.residual)) < np.max(np.abs(plain.residual)) / 5


# --- no bias beyond the error bars ---------------------------------------------------------------------------

BATCHES, SEEDS = 8, 20
FREE = {  # alpha, eta, penalty, temperature, label noise, scale or overlap of the start, steps
    "warm": (1.5, 0.1, 0.3, 0.7, 0.2, ll.RandomStart(1.4), 40),
    "cold": (2.0, 0.05, 0.0, 0.0, 0.5, ll.InformedStart(0.2), 40),
    "few samples, hot": (0.7, 0.15, 0.1, 1.5, 0.0, ll.RandomStart(1.0), 40),
    "many samples, noisy": (4.0, 0.05, 0.5, 0.3, 1.0, ll.RandomStart(0.6), 40),
}


def regression(name):
    alpha, eta, penalty, temperature, noise, start, steps = FREE[name]
    rule = ll.Langevin(eta, temperature, False, penalty) if temperature else ll.GradientDescent(eta, False, penalty)
    problem = descent(rule, alpha, start, ll.SquareLoss(), ll.GaussianNoise(noise))
    m0 = getattr(start, "overlap", 0.0)
    exact = linear_overlaps(steps, alpha, eta, penalty, temperature, noise, m0, getattr(start, "scale", 1.0) ** 2)
    return problem, dict(zip(("m", "q"), exact, strict=True)), eta * steps


def solutions(problem, time, trajectories, names, batches=BATCHES * SEEDS, seed=5):
    """Independent solutions of each quantity; so many batches are as many as those of SEEDS seeds."""
    seen = ll.predict(problem, DMFT(trajectories=trajectories, batches=batches, seed=seed), [0.0, time])
    assert set(seen.status.values) == {"ok"}
    return {name: seen[name].values[1] if name != "C" else seen.C.values[1, :, 0] for name in names}


def pooled(values, exact, error=0.0):
    return (values.mean() - exact) / np.hypot(values.std(ddof=1) / np.sqrt(len(values)), error)


def covered(values, exact):
    """The share of error bars of one result (twice its standard error over its batches) that hold the truth."""
    groups = values.reshape(-1, BATCHES)
    errors = groups.std(axis=1, ddof=1) / np.sqrt(BATCHES)
    return np.mean(np.abs(groups.mean(axis=1) - exact) < 2.365 * errors)  # Student's 95 %, 7 degrees of freedom


def holds(values, exact, error=0.0):
    assert abs(pooled(values, exact, error)) < 4
    assert covered(values, exact) >= 0.75


@pytest.mark.more
@pytest.mark.parametrize("name", ["warm"])
def test_few_trajectories_have_no_bias_beyond_their_error_bars(name):
    problem, exact, time = regression(name)
    for quantity, values in solutions(problem, time, 256, exact).items():
        holds(values, exact[quantity])


def test_the_identity_imposed_as_it_stands_is_biased(monkeypatch):
    """The old estimator: a regression without what K explains already, whose noise was not weighed."""

    def imposed(k, t, K, Cz_t, fit, reuse):
        index = jnp.arange(K.shape[1])
        ridge = jnp.asarray(0.1)
        gram = rows.factor_rows(k.gram, rows.beside(k.gram, Cz_t, t), t, ridge[None])
        left = jnp.where(index <= t, fit.left - K @ k.Cz, 0.0)
        factors = rows.Factors(gram, ridge, k.other_gram, k.other_ridge)
        return K + rows._cholesky_solve(gram, left.T).T, factors

    def unexplained(model, sample, z, g, *rest):
        zero, t = jnp.zeros(()), rest[-1]
        return rows.Fit(paths._products(z, sample.weight * model.alpha * g, t), zero, zero, zero)

    monkeypatch.setattr(rows, "_fitted", imposed)
    monkeypatch.setattr(paths, "_fit", unexplained)
    monkeypatch.setattr(DMFT, "_scheme", lambda self, problem: Scheme(self.probes, self._identity, mutation="imposed"))
    problem, exact, time = regression("warm")
    values = solutions(problem, time, 256, exact)["q"]
    assert pooled(values, exact["q"]) > 6  # 9.0 before
    assert covered(values, exact["q"]) < 0.75


@pytest.mark.slow
@pytest.mark.parametrize("trajectories", [256, 1024])
@pytest.mark.parametrize("name", FREE)
def test_no_bias_where_the_solution_is_known(name, trajectories):
    problem, exact, time = regression(name)
    for quantity, values in solutions(problem, time, trajectories, exact).items():
        holds(values, exact[quantity])


BENT = {
    "phase retrieval": descent(ll.Langevin(ETA, 0.2, False, 0.1), 3.0, None, None, ll.Modulus(0.1), 1.5),
    "logistic": descent(
        ll.Langevin(0.1, 0.5, False, 0.3), 2.0, ll.RandomStart(1.2), ll.LogisticLoss(), ll.Sign(flip=0.1)
    ),
    "hinge": descent(ll.Langevin(0.05, 0.5, False, 0.3), 3.0, ll.RandomStart(), ll.HingeLoss(), ll.Sign(flip=0.1)),
    "amplitude": descent(
        ll.Langevin(0.05, 0.3, False, 0.3), 2.0, ll.InformedStart(0.4), ll.AmplitudeLoss(), ll.Modulus(0.1)
    ),
    "sphere": descent(ll.PersistentSGD(ETA, 0.5, 0.5), 3.0, ll.InformedStart(0.3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("trajectories", [256, 1024])
@pytest.mark.parametrize("name", BENT)
def test_no_bias_against_many_trajectories(name, trajectories):
    """Where the force jumps the slopes of tangents are differences, and a bias remains: below 1024 with a warning."""
    names = ("m", "q", "train_loss", "C") if name != "sphere" else ("m", "train_loss", "C")
    problem, time = BENT[name], 40 * float(BENT[name].algorithm.learning_rate)
    many = solutions(problem, time, 2**15, names, 48, seed=3)
    if not problem.loss.smooth and trajectories < 1024:
        with pytest.warns(ll.errors.AccuracyWarning, match="jumps, and 256 trajectories"):
            few = solutions(problem, time, trajectories, names)
    else:
        few = solutions(problem, time, trajectories, names)
    for quantity in names:
        values, exact = few[quantity], many[quantity]
        if problem.loss.smooth or trajectories >= 1024:
            holds(values, exact.mean(), exact.std(ddof=1) / np.sqrt(len(exact)))
        else:
            assert abs(values.mean() - exact.mean()) < 0.5 * values.std(ddof=1)
            assert covered(values, exact.mean()) >= 0.75


# --- independent code ----------------------------------------------------------------------------------------


def by_hand(steps, alpha, eta, m0, b, tau, count, rng):
    """Phase retrieval by p-SGD on the sphere: plain sampling, tangents exact; m, loss, C(0, t) and K(t, 0)."""
    h0, h = rng.normal(size=count), [np.sqrt(1 - m0**2) * rng.normal(size=count)]
    mask, Z = rng.random(count) < b, []
    m, g, K, D, losses = [m0], [], np.zeros((steps + 1, steps + 1)), {}, []
    M, Cz, R = np.zeros((steps + 1,) * 2), np.zeros((steps + 2,) * 2), np.zeros((steps + 2,) * 2)
    Cz[0, 0] = 1 - m0**2
    for t in range(steps + 1):
        field = h[t] + m[t] * h0
        g.append(mask / b * field * (field**2 - h0**2))
        slope = mask / b * (3 * field**2 - h0**2)
        losses.append(np.mean((field**2 - h0**2) ** 2) / 4)
        past = slice(0, t + 1)
        M[t, past] = M[past, t] = [alpha * np.mean(g[t] * x) for x in g]
        K[t, t], K[t, :t] = alpha * np.mean(slope), [alpha * np.mean(slope * D[t, s]) for s in range(t)]
        Z.append(rng.normal(size=count))
        root = np.linalg.cholesky(M[past, past] + 1e-9 * np.diag(np.diag(M)[past]))
        xi = root[t] @ np.array(Z)
        Y = R[past, past] @ M[past, t]
        q = Y + Cz[past, past] @ K[t, past]
        Q = M[t, t] + 2 * K[t, past] @ Y + K[t, past] @ Cz[past, past] @ K[t, past]
        mu = alpha * np.mean(h0 * g[t])
        a = ((m[t] - eta * mu) ** 2 + Cz[t, t] - 2 * eta * q[t] + eta**2 * Q) ** -0.5
        e = a * eta
        m.append(a * (m[t] - eta * mu))
        Cz[t + 1, past] = Cz[past, t + 1] = a * Cz[t, past] - e * q
        Cz[t + 1, t + 1] = 1 - m[-1] ** 2
        R[t + 1, past] = a * R[t, past] - e * K[t, past] @ R[past, past]
        R[t + 1, t] = -e
        h.append(a * h[t] - e * (g[t] + K[t, past] @ np.array(h) + xi))
        for s in range(t):
            memory = sum(K[t, r] * D[r, s] for r in range(s + 1, t + 1))
            D[t + 1, s] = a * D[t, s] - e * (slope * D[t, s] + memory)
        D[t + 1, t] = -e * slope
        mask = rng.random(count) < np.where(mask, 1 - (1 - b) * eta / (b * tau), eta / tau)
    return m[steps], losses[steps], Cz[steps, 0] + m0 * m[steps], -K[steps, 0] / eta


@pytest.mark.parametrize("identity", [True, False])
def test_independent_code_with_exact_tangents_agrees(identity):
    steps, alpha, eta, m0, b, tau = 12, 3.0, 0.02, 0.4, 0.5, 0.2
    problem = descent(ll.PersistentSGD(eta, b, tau), alpha, ll.InformedStart(m0))
    seen = ll.predict(problem, DMFT(trajectories=N, batches=24, identity=identity), [0, eta * steps]).isel(time=1)
    rng = np.random.default_rng(0)
    theirs = np.array([by_hand(steps, alpha, eta, m0, b, tau, 2000, rng) for _ in range(12)])
    ours = np.array([seen.m, seen.train_loss, seen.C.isel(time_2=0), seen.M_R.isel(time_2=0)]).T
    error = np.sqrt(theirs.var(axis=0, ddof=1) / len(theirs) + ours.var(axis=0, ddof=1) / len(ours))
    assert np.all(np.abs(theirs.mean(axis=0) - ours.mean(axis=0)) < 4 * error)


# --- the square ----------------------------------------------------------------------------------------------

TIMES = ETA * np.array([0, 2, 5, 10, 20, 40, 60])


@pytest.mark.slow
def test_a_run_that_outgrows_its_room_goes_on():
    problem, limit = descent(ll.GradientDescent(ETA)), DMFT(trajectories=N, batches=2)
    whole = ll.predict(problem, limit, [0.3, 1.5])
    _, state = limit.run(problem, [0.3])
    longer, _ = limit.resume(problem, state, [0.3, 1.5])
    np.testing.assert_allclose(longer.m, whole.m, atol=1e-8)


def test_room_that_grows_and_factors_that_are_kept_change_nothing(monkeypatch):
    """Kernels of long runs begin small, and the factor of a ridge that returns is not computed anew."""
    problem, limit = descent(ll.PersistentSGD(ETA, 0.5, 0.5)), DMFT(trajectories=N, batches=1)
    whole = ll.predict(problem, limit, [0.1, 0.3, 0.6])
    with monkeypatch.context() as patch:
        patch.setattr(solve, "LONG", 8)
        grown = ll.predict(problem, limit, [0.1, 0.3, 0.6])
    with monkeypatch.context() as patch:
        patch.setattr(DMFT, "_scheme", lambda self, setting: Scheme(1, identity=True, mutation="anew"))
        anew = ll.predict(problem, limit, [0.1, 0.3, 0.6])
    other = ll.predict(problem, DMFT(trajectories=N, batches=1, seed=1), [0.1, 0.3, 0.6])
    for name in ("m", "C", "R", "M_R", "train_loss"):
        np.testing.assert_allclose(grown[name], whole[name], atol=1e-8)
        np.testing.assert_allclose(anew[name], whole[name], atol=1e-8)
        assert np.max(np.abs(other[name] - whole[name])) > 1e-5  # the control: another seed is not the same


# --- bad input and warnings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DMFT(trajectories=1), "trajectories must be"),
        (lambda: DMFT(batches=0), "batches must be"),
        (lambda: DMFT(scheme="guessed"), "scheme must be one of"),
        (lambda: DMFT(scheme="iterated", identity=True), "identity must be False"),
        (lambda: DMFT(d=-1.0), "d must be"),
        (lambda: DMFT(scheme="iterated").run(DOWN, [0.1]), "iteration has no state"),
        (lambda: ll.predict(DOWN, DMFT(trajectories=10**7), [0.0, 50.0]), r"needs about .* GiB.*trajectories"),
    ],
)
def test_bad_settings_are_refused_in_words(make, message):
    with pytest.raises(ll.errors.InputError, match=message):
        make()


@pytest.mark.more
def test_few_trajectories_of_a_force_that_jumps_are_warned_of():
    problem = descent(ll.GradientDescent(ETA), loss=ll.AmplitudeLoss())
    with pytest.warns(ll.errors.AccuracyWarning, match="force of AmplitudeLoss jumps, and 64 traj.*=1024 or more"):
        ll.predict(problem, DMFT(trajectories=64, batches=1), [0.0, ETA])


def test_a_loss_with_kinks_needs_the_identity():
    problem = descent(ll.GradientDescent(ETA), loss=ll.AmplitudeLoss())
    DMFT().check(problem)
    with pytest.raises(ll.errors.LimitUndefinedError, match="loss with kinks"):
        DMFT(identity=False).check(problem)


def test_a_step_that_is_too_long_warns_and_diverges():
    problem = descent(ll.GradientDescent(0.5))
    with pytest.warns(ll.errors.AccuracyWarning, match="DMFT: learning_rate=0.5 is above the stability limit"):
        seen = ll.predict(problem, DMFT(trajectories=N, batches=2), [0.0, 0.5, 5.0])
    assert set(seen.status.values) == {"diverged"}
    assert np.all(np.isfinite(seen.m[0]))
    assert np.all(np.isnan(seen.m[-1]))


def test_a_random_start_is_stuck_without_a_dimension_and_says_so():
    problem = descent(ll.GradientDescent(ETA), start=ll.RandomStart())
    limit = ll.predict(problem, DMFT(trajectories=N, batches=2), [0.0, 0.2])
    assert np.max(np.abs(limit.m[0])) == 0
    assert "never left" in limit.attrs["note"]
    finite = ll.predict(problem, DMFT(trajectories=N, batches=2, d=4), [0.0, 0.2])
    np.testing.assert_allclose(finite.m[0], 0.5)
    assert json.loads(finite.attrs["problem"])["start"]["kind"] == "RandomStart"


def test_without_a_sign_no_overlap_grows_from_zero():
    steep = ll.library.descent_phase_retrieval(6.0, ll.GradientDescent(0.01), overlap=0.0)
    flow = ll.predict(steep, ll.DMFT(trajectories=256, batches=2), times=np.array([0.0, 0.5]))
    assert np.all(flow.m.values == 0)


@pytest.mark.parametrize(
    ("limit", "rate", "start", "pattern"),
    [
        (ll.DMFT(trajectories=256, batches=1, d=1e4), 0.01, None, "Monte-Carlo noise"),
        (ll.DMFT(trajectories=256, batches=1), 0.08, 0.5, "overshoot"),
    ],
)
def test_what_few_trajectories_cannot_do_is_said_before(limit, rate, start, pattern):
    learner = ll.library.descent_phase_retrieval(1.0, ll.GradientDescent(rate), overlap=start)
    with pytest.warns(ll.errors.AccuracyWarning, match=pattern) as told:
        ll.predict(learner, limit, times=np.array([0.0, rate]))
    assert len(told) == 1  # one warning, not one a batch or a cause
