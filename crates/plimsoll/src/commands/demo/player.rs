//! Lives through the day as fast as is wanted, and answers who asks how it goes: all about the cluster on the right.

use super::day::{Day, Named, STEP};
use anyhow::Result;
use plimsoll_kube::asked::{self, Told as _};
use plimsoll_kube::driver::{Input, Question};
use plimsoll_kube::survey::NodeDetail;
use plimsoll_kube::twin::{Account, Told};
use plimsoll_server::Stage;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;

/// How often it goes on.
const TICK: Duration = Duration::from_millis(50);
/// For so long it may be at it before it answers who asks: a speed that is too great for this machine is not kept up with.
const BUSY: Duration = Duration::from_millis(100);

/// See the description of the module.
pub struct Player {
    day: Day,
    stage: Arc<Stage>,
    left: Arc<Told>,
    /// How much of the day is due, in seconds.
    due: f64,
    /// For so long it may be at it.
    busy: Duration,
}

impl Player {
    /// Shows a day on a stage; what the left side comes to is also told to `left`.
    pub fn new(day: Day, stage: Arc<Stage>, left: Arc<Told>) -> Self {
        let mut player = Self { day, stage, left, due: 0.0, busy: BUSY };
        player.show();
        player
    }

    /// Lives through the day, and goes on answering when it is over, until nobody can ask any more.
    pub async fn play(mut self, mut inbox: Receiver<Input>) -> Result<()> {
        let mut last = Instant::now();
        loop {
            match tokio::time::timeout(TICK, inbox.recv()).await {
                Ok(Some(Input::Ask(question))) => self.answer(question),
                // Nobody tells it of a cluster, having one of its own.
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => return Ok(()),
            }
            if last.elapsed() >= TICK {
                self.pass(last.elapsed())?;
                last = Instant::now();
            }
        }
    }

    /// So much real time has passed.
    pub fn pass(&mut self, time: Duration) -> Result<()> {
        let pace = self.stage.pace();
        if pace.paused || self.day.is_over() {
            return Ok(());
        }
        self.due += time.as_secs_f64() * pace.speed;
        let begun = Instant::now();
        while self.due >= STEP.as_secs_f64() && !self.day.is_over() {
            self.due -= STEP.as_secs_f64();
            self.day.step()?;
            if begun.elapsed() > self.busy {
                self.due = 0.0;
            }
        }
        self.show();
        Ok(())
    }

    fn show(&mut self) {
        let Day { left, right } = &mut self.day;
        left.look();
        right.look();
        let over = self.day.is_over();
        let (left, right) = (self.day.left.side(), self.day.right.side());
        self.stage.show(self.day.clock().as_secs_f64(), over, &left, &right);
        let whole = self.stage.day(false).left.totals.whole();
        self.left.set(Account { whole, ..Account::default() });
    }

    fn answer(&mut self, question: Question) {
        let side = &mut self.day.right;
        // Who asked may be gone.
        match question {
            Question::Counts(answer) => drop(answer.send(side.engine().counts())),
            Question::Survey(seen, answer) => drop(answer.send(side.survey(seen))),
            Question::Pending(answer) => drop(answer.send(side.engine().pending())),
            Question::Node(name, answer) => drop(answer.send(NodeDetail::of(side.engine().state(), &name))),
            Question::Explain(namespace, name, answer) => drop(answer.send(side.explain(&namespace, &name))),
            Question::WhatIf(profile, pod, answer) => drop(answer.send(asked::what_if(side, &profile, &pod))),
            Question::Why(decision, answer) => drop(answer.send(asked::why_now(side, &decision))),
            Question::Object(profile, pod, answer) => drop(answer.send(asked::object(side, &profile, &pod))),
            Question::Advise(told, answer) => {
                let judged = told.items.into_iter().map(|item| asked::judge(side, &told.profile, item)).collect();
                drop(answer.send(judged));
            }
            Question::SetPolicy(profile, name, policy, answer) => {
                let _ = answer.send(side.set_policy(&profile, Named { name, policy }));
            }
            // What only a scheduler at work can tell: who asks hears that nobody answers.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::day::DEFAULT;
    use plimsoll_core::policy::by_name;
    use plimsoll_server::Pace;

    fn player(pace: Pace) -> (Player, Arc<Stage>) {
        let named = |name: &str| Named { name: name.to_owned(), policy: by_name(name).unwrap() };
        let day = Day::new(1, named(DEFAULT), named("efficient-first")).unwrap();
        let stage = Arc::new(Stage::new(pace));
        let mut player = Player::new(day, Arc::clone(&stage), Arc::default());
        player.busy = Duration::MAX;
        (player, stage)
    }

    #[test]
    fn the_day_goes_as_fast_as_is_wanted_and_stands_still_when_paused() {
        let (mut player, stage) = player(Pace { speed: 100.0, paused: false });
        assert_eq!(stage.day(true).clock, 0.0);
        player.pass(Duration::from_millis(250)).unwrap();
        assert_eq!(stage.day(true).clock, 20.0, "whole steps of what is due");
        player.pass(Duration::from_millis(50)).unwrap();
        assert_eq!(stage.day(true).clock, 30.0, "what was left over is not lost");
        stage.set_pace(None, Some(true)).unwrap();
        player.pass(Duration::from_secs(10)).unwrap();
        assert_eq!((stage.day(true).clock, stage.day(true).paused), (30.0, true));
        stage.set_pace(Some(1000.0), Some(false)).unwrap();
        player.pass(Duration::from_millis(20)).unwrap();
        assert_eq!(stage.day(true).clock, 50.0);
        assert!(stage.set_pace(Some(0.0), Some(true)).is_err());
        assert_eq!(stage.pace(), Pace { speed: 1000.0, paused: false }, "what is refused changes nothing");
    }
}
